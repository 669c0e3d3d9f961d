package main

import (
	"encoding"
	"fmt"
	"reflect"
	"strings"

	"github.com/siderolabs/talos/pkg/machinery/config/config"
	"github.com/siderolabs/talos/pkg/machinery/config/configloader"
)

// kind says what is special about a document beside its keys.
type kind struct {
	Root         string   `json:"root"`
	Named        bool     `json:"named"`
	ControlPlane bool     `json:"controlPlane"`
	Conflicts    []string `json:"conflicts"`
	Link         bool     `json:"link"`
}

type field struct {
	Key     string `json:"key"`
	Type    string `json:"type"`
	Replace bool   `json:"replace"`
}

// shapes collects the fields of all types that configuration is made of, by type name.
//
// A type is written as a word: text, bool, int and uint with their bits, float, time (a duration), bytes, any, url, opaque (a scalar with a reader of
// its own, of a struct type), enum (the same, of a number type), or, around another type, ptr, list and map; a struct is
// its name. A type with a merge rule of its own is preceded by that type's name and a colon.
type shapes struct {
	Kinds   map[string]kind    `json:"kinds"`
	Structs map[string][]field `json:"structs"`
	// Words are all texts of the types that have only a few. The first is the one of zero, empty where zero has none.
	Words map[string][]string `json:"words"`
}

func schema(kinds []string) shapes {
	result := shapes{Kinds: map[string]kind{}, Structs: map[string][]field{}, Words: map[string][]string{}}

	for _, name := range kinds {
		text := "apiVersion: v1alpha1\nkind: " + name + "\n"
		if name == "v1alpha1" {
			text = "version: v1alpha1\nmachine: {}\n"
		}

		cfg, err := configloader.NewFromBytes([]byte(text))
		if err != nil {
			// Some kinds cannot be read without a name.
			cfg, err = configloader.NewFromBytes([]byte(text + "name: a\n"))
		}

		if err != nil {
			continue
		}

		document := cfg.Documents()[0]
		value := reflect.TypeOf(document).Elem()

		described := kind{Root: structName(value), Conflicts: []string{}}
		_, described.Named = document.(config.NamedDocument)
		_, described.ControlPlane = reflect.TypeOf(document).MethodByName("ControlplaneOnlyDocument")
		described.Link = hasMethods(document, "Up", "MTU", "Addresses", "Routes", "Multicast")

		if conflicting, ok := document.(interface{ ConflictsWithKinds() []string }); ok {
			described.Conflicts = conflicting.ConflictsWithKinds()
		}

		result.Kinds[name] = described
		result.collect(value)
	}

	return result
}

// hasMethods is asked instead of an interface where older releases lack that interface.
func hasMethods(document any, names ...string) bool {
	for _, name := range names {
		if _, ok := reflect.TypeOf(document).MethodByName(name); !ok {
			return false
		}
	}

	return true
}

func structName(t reflect.Type) string {
	path := strings.Split(t.PkgPath(), "/")

	return path[len(path)-1] + "." + t.Name()
}

func (s shapes) collect(t reflect.Type) {
	name := structName(t)
	if _, known := s.Structs[name]; known {
		return
	}

	s.Structs[name] = []field{}
	s.Structs[name] = s.fields(t)
}

func (s shapes) fields(t reflect.Type) []field {
	result := []field{}

	for i := range t.NumField() {
		member := t.Field(i)

		tag, ok := member.Tag.Lookup("yaml")
		if !member.IsExported() || !ok || tag == "-" {
			continue
		}

		words := strings.Split(tag, ",")

		if len(words) > 1 && words[1] == "inline" {
			inner := member.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}

			if inner.Kind() == reflect.Struct {
				result = append(result, s.fields(inner)...)
			}

			continue
		}

		key := words[0]
		if key == "" {
			key = strings.ToLower(member.Name)
		}

		replace := false

		for _, word := range strings.Split(member.Tag.Get("merge"), ",") {
			replace = replace || word == "replace"
		}

		result = append(result, field{Key: key, Type: s.typeOf(member.Type), Replace: replace})
	}

	return result
}

var (
	textReader  = reflect.TypeFor[encoding.TextUnmarshaler]()
	merger      = reflect.TypeFor[interface{ Merge(any) error }]()
	durationOf  = "time.Duration"
	urlPointers = map[string]bool{"meta.URL": true, "v1alpha1.Endpoint": true}
)

func (s shapes) typeOf(t reflect.Type) string {
	if t.Name() != "" && reflect.PointerTo(t).Implements(merger) {
		return t.Name() + ":" + s.plain(t)
	}

	return s.plain(t)
}

func (s shapes) plain(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		return "ptr " + s.typeOf(t.Elem())
	}

	if t.Name() != "" && urlPointers[structName(t)] {
		return "url"
	}

	if t.String() == durationOf {
		return "time"
	}

	if t.Name() == "Unstructured" {
		return "unstructured"
	}

	_, readsYAML := reflect.PointerTo(t).MethodByName("UnmarshalYAML")
	custom := readsYAML || reflect.PointerTo(t).Implements(textReader)

	switch t.Kind() {
	case reflect.String:
		if custom {
			s.words(t)

			return "enum " + structName(t)
		}

		return "text"
	case reflect.Bool:
		return "bool"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if custom {
			s.words(t)

			return "enum " + structName(t)
		}

		return fmt.Sprintf("int %d", t.Bits())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if custom {
			s.words(t)

			return "enum " + structName(t)
		}

		return fmt.Sprintf("uint %d", t.Bits())
	case reflect.Float32, reflect.Float64:
		return "float"
	case reflect.Interface:
		return "any"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes " + structName(t)
		}

		return "list " + s.typeOf(t.Elem())
	case reflect.Map:
		return "map " + s.typeOf(t.Elem())
	case reflect.Struct:
		if custom {
			return "opaque " + structName(t)
		}

		s.collect(t)

		return structName(t)
	}

	panic(fmt.Sprintf("no word for %v", t))
}

// words tries all small numbers of a type whose values are words, and keeps those that are read back as they were written.
func (s shapes) words(t reflect.Type) {
	name := structName(t)
	if _, known := s.Words[name]; known || t.Kind() == reflect.String {
		return
	}

	value := reflect.New(t)

	reader, ok := value.Interface().(encoding.TextUnmarshaler)
	if !ok || reader.UnmarshalText([]byte("no-such-word")) == nil || reader.UnmarshalText([]byte("1")) == nil {
		return
	}

	words := []string{}

	for number := range 70000 {
		if value.Elem().CanInt() {
			if value.Elem().OverflowInt(int64(number)) {
				break
			}

			value.Elem().SetInt(int64(number))
		} else {
			if value.Elem().OverflowUint(uint64(number)) {
				break
			}

			value.Elem().SetUint(uint64(number))
		}

		writer, ok := value.Elem().Interface().(encoding.TextMarshaler)
		if !ok {
			return
		}

		text, err := writer.MarshalText()
		if err == nil && len(text) > 0 && reader.UnmarshalText(text) == nil {
			words = append(words, string(text))
		} else if number == 0 {
			words = append(words, "")
		}
	}

	if len(words) > 1 {
		s.Words[name] = words
	}
}
