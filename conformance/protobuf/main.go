// Writes how the kinds of Kubernetes that the lab holds look in protobuf: for each message its fields, by number, as JSON names
// and types. Made from the tags of Kubernetes' own Go types, where both are told.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

var roots = []any{
	corev1.Binding{}, corev1.ConfigMap{}, corev1.Endpoints{}, corev1.Event{}, corev1.LimitRange{}, corev1.Namespace{},
	corev1.Node{}, corev1.PersistentVolume{}, corev1.PersistentVolumeClaim{}, corev1.Pod{}, corev1.ReplicationController{},
	corev1.ResourceQuota{}, corev1.Secret{}, corev1.Service{}, corev1.ServiceAccount{},
	admissionregistrationv1.MutatingWebhookConfiguration{}, admissionregistrationv1.ValidatingWebhookConfiguration{},
	appsv1.ControllerRevision{}, appsv1.DaemonSet{}, appsv1.Deployment{}, appsv1.ReplicaSet{}, appsv1.StatefulSet{},
	autoscalingv1.Scale{}, autoscalingv2.HorizontalPodAutoscaler{}, batchv1.CronJob{}, batchv1.Job{},
	certificatesv1.CertificateSigningRequest{}, coordinationv1.Lease{}, discoveryv1.EndpointSlice{},
	networkingv1.Ingress{}, networkingv1.IngressClass{}, networkingv1.NetworkPolicy{},
	policyv1.Eviction{}, policyv1.PodDisruptionBudget{},
	rbacv1.ClusterRole{}, rbacv1.ClusterRoleBinding{}, rbacv1.Role{}, rbacv1.RoleBinding{},
	schedulingv1.PriorityClass{}, storagev1.CSIDriver{}, storagev1.CSINode{}, storagev1.StorageClass{}, storagev1.VolumeAttachment{},
	metav1.DeleteOptions{},
}

// Types with a form of their own in JSON.
var special = map[string]string{
	"v1.Time": "time", "v1.MicroTime": "time", "v1.Duration": "duration", "intstr.IntOrString": "intOrString",
	"resource.Quantity": "quantity", "runtime.RawExtension": "raw", "v1.FieldsV1": "raw", "v1.Verbs": "items", "v1.ExtraValue": "items",
}

var messages = map[string]map[string][2]string{}

// name tells types of one name in different packages apart.
func name(t reflect.Type) string {
	parts := strings.Split(strings.TrimPrefix(t.PkgPath(), "k8s.io/"), "/")
	if len(parts) > 2 {
		parts = parts[len(parts)-2:]
	}
	return parts[0] + "." + t.Name()
}

func kindOf(t reflect.Type) string {
	if s, ok := special[t.String()]; ok {
		return s
	}
	switch t.Kind() {
	case reflect.Pointer:
		return kindOf(t.Elem())
	case reflect.Bool:
		return "bool"
	case reflect.Int, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "int"
	case reflect.Float64:
		return "double"
	case reflect.String:
		return "string"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		return "[]" + kindOf(t.Elem())
	case reflect.Map:
		return "{}" + kindOf(t.Elem())
	case reflect.Struct:
		walk(t)
		return name(t)
	}
	panic("what is " + t.String())
}

func walk(t reflect.Type) {
	if _, ok := messages[name(t)]; ok {
		return
	}
	fields := map[string][2]string{}
	messages[name(t)] = fields
	for i := range t.NumField() {
		f := t.Field(i)
		tag := strings.Split(f.Tag.Get("protobuf"), ",")
		if len(tag) < 2 {
			continue // the type of an object is said around it
		}
		json := strings.Split(f.Tag.Get("json"), ",")
		kind := kindOf(f.Type)
		if f.Type.Kind() == reflect.Pointer {
			kind = "*" + kind // what is sent was said, be it zero or empty
		}
		fields[tag[1]] = [2]string{json[0], kind} // no name: the fields of the part stand in the whole
	}
}

// sample writes an object in both forms, to check readers with.
func sample(api, kind string, object interface {
	Marshal() ([]byte, error)
}) {
	raw, err := object.Marshal()
	check(err)
	whole, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: api, Kind: kind}, Raw: raw}).Marshal()
	check(err)
	text, err := json.Marshal(map[string]any{"object": object, "kind": kind, "apiVersion": api, "protobuf": append([]byte("k8s\x00"), whole...)})
	check(err)
	fmt.Println(string(text))
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func samples() {
	port, zero, policy := intstr.FromString("http"), int32(0), corev1.PreemptNever
	meta := metav1.ObjectMeta{Name: "a", Namespace: "default", Labels: map[string]string{"app": "a", "empty": ""}}
	sample("v1", "ConfigMap", &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"k": "v", "none": ""}, BinaryData: map[string][]byte{"b": {0, 255}}})
	sample("v1", "Secret", &corev1.Secret{ObjectMeta: meta, Type: corev1.SecretTypeOpaque, Data: map[string][]byte{"k": []byte("v")}})
	sample("v1", "Namespace", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "a"}}, Spec: corev1.PodSpec{
		PreemptionPolicy: &policy,
		SecurityContext:  &corev1.PodSecurityContext{SupplementalGroups: []int64{1, 300}},
		Volumes: []corev1.Volume{
			{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			{Name: "cm", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "x"}}}},
		},
		Containers: []corev1.Container{{
			Name: "a", Image: "example/a:1", Args: []string{"", "-v"}, Env: []corev1.EnvVar{{Name: "A", Value: "1"}},
			Resources:     corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("100m")}},
			LivenessProbe: &corev1.Probe{PeriodSeconds: 7, ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: port}}},
		}},
	}}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}
	sample("apps/v1", "Deployment", &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: &zero, Selector: selector, Template: template}})
	least := intstr.FromInt32(2)
	sample("policy/v1", "PodDisruptionBudget", &policyv1.PodDisruptionBudget{ObjectMeta: meta, Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: &least, Selector: selector}})
	sample("networking.k8s.io/v1", "NetworkPolicy", &networkingv1.NetworkPolicy{ObjectMeta: meta, Spec: networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{{}}}})
	sample("rbac.authorization.k8s.io/v1", "ClusterRole", &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}}})
	sample("v1", "Service", &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, Ports: []corev1.ServicePort{{Port: 80, Protocol: "TCP", TargetPort: intstr.FromInt32(8080)}}}})
	at := metav1.NewMicroTime(time.Date(2026, 1, 2, 3, 4, 5, 600000000, time.UTC))
	sample("coordination.k8s.io/v1", "Lease", &coordinationv1.Lease{ObjectMeta: meta, Spec: coordinationv1.LeaseSpec{RenewTime: &at}})
	sample("policy/v1", "Eviction", &policyv1.Eviction{ObjectMeta: meta, DeleteOptions: &metav1.DeleteOptions{GracePeriodSeconds: new(int64)}})
}

func main() {
	if len(os.Args) > 1 {
		samples()
		return
	}
	kinds := []string{}
	for _, r := range roots {
		t := reflect.TypeOf(r)
		walk(t)
		kinds = append(kinds, name(t))
	}
	names := []string{}
	for n := range messages {
		names = append(names, n)
	}
	sort.Strings(names)
	fmt.Println("{")
	for i, n := range names {
		b, err := json.Marshal(messages[n])
		if err != nil {
			panic(err)
		}
		comma := ","
		if i == len(names)-1 {
			comma = ""
		}
		fmt.Printf("%q:%s%s\n", n, b, comma)
	}
	fmt.Println("}")
	fmt.Fprintln(os.Stderr, len(kinds), "kinds,", len(names), "messages")
}
