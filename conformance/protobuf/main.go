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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

func main() {
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
