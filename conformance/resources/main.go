// Command resources writes the table of Talos' resource types from the source of Talos' own library, one folder a minor
// release: names, namespaces, aliases, columns, sensitivity, and the fields of their specs with their numbers.
//
//	go run . 12=MACHINERY_FOLDER 13=MACHINERY_FOLDER 14=MACHINERY_FOLDER > TABLE
package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sort"
	"strconv"
	"strings"
)

type definition struct {
	Releases  []int       `json:"releases"`
	Namespace string      `json:"namespace"`
	Aliases   []string    `json:"aliases,omitempty"`
	Columns   [][2]string `json:"columns,omitempty"`
	Sensitive bool        `json:"sensitive,omitempty"`
	Plain     bool        `json:"plain,omitempty"` // no aliases but those that are named
	Spec      string      `json:"spec,omitempty"`
}

// field is a name in YAML, a number in protobuf, and a Go type.
type field [3]string

type table struct {
	Types map[string]*definition `json:"types"`
	Specs map[string][]field     `json:"specs"`
}

// library is one release as source.
type library struct {
	constants map[string]string  // package.Name to its text
	structs   map[string][]field // package.Name
	specOf    map[string]string  // package.Extension to package.Spec
	resources []resource
}

type resource struct {
	pkg, receiver string
	literal       *ast.CompositeLit
}

func main() {
	out := table{Types: map[string]*definition{}, Specs: map[string][]field{}}
	for _, argument := range os.Args[1:] {
		release, folder, _ := strings.Cut(argument, "=")
		minor, err := strconv.Atoi(release)
		check(err)
		read(folder).add(&out, minor)
	}
	// Came with a patch of 1.12 that the registry does not have; a recorded 1.12.11 lists it.
	if late := out.Types["KubeletKubeconfigs.kubernetes.talos.dev"]; late != nil && !slices.Contains(late.Releases, 12) {
		late.Releases = append([]int{12}, late.Releases...)
	}
	out.prune()
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	check(encoder.Encode(out))
}

func read(folder string) *library {
	l := &library{map[string]string{}, map[string][]field{}, map[string]string{}, nil}
	// Specs are at home with their types, or in a package that a type only borrows from.
	roots := []string{filepath.Join(folder, "extensions"), filepath.Join(folder, "resources")}
	// Once more than constants lead to constants, because a package may come before the one that it refers to.
	for range 3 {
		l.resources = nil
		for _, root := range roots {
			l.walk(root)
		}
	}
	return l
}

func (l *library) walk(root string) {
	check(filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err == nil {
			l.file(file)
		}
		return err
	}))
}

func (l *library) file(file *ast.File) {
	pkg := file.Name.Name
	for _, declaration := range file.Decls {
		switch d := declaration.(type) {
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.ValueSpec:
					for i, name := range s.Names {
						if i < len(s.Values) {
							if text, ok := l.text(pkg, s.Values[i]); ok {
								l.constants[pkg+"."+name.Name] = text
							}
						}
					}
				case *ast.TypeSpec:
					l.typeSpec(pkg, s)
				}
			}
		case *ast.FuncDecl:
			if d.Name.Name == "ResourceDefinition" && d.Recv != nil {
				for _, statement := range d.Body.List {
					if r, ok := statement.(*ast.ReturnStmt); ok {
						if literal, ok := r.Results[0].(*ast.CompositeLit); ok {
							l.resources = append(l.resources, resource{pkg, name(d.Recv.List[0].Type), literal})
						}
					}
				}
			}
		}
	}
}

func (l *library) typeSpec(pkg string, s *ast.TypeSpec) {
	switch t := s.Type.(type) {
	case *ast.StructType:
		var fields []field
		for _, f := range t.Fields.List {
			if f.Tag == nil || len(f.Names) != 1 {
				continue
			}
			tag := reflect.StructTag(strings.Trim(f.Tag.Value, "`"))
			yaml, _, _ := strings.Cut(tag.Get("yaml"), ",")
			number, _, _ := strings.Cut(tag.Get("protobuf"), ",")
			if number != "" && yaml != "" {
				fields = append(fields, field{yaml, number, qualified(pkg, f.Type)})
			}
		}
		if fields != nil {
			l.structs[pkg+"."+s.Name.Name] = fields
		}
	case *ast.Ident, *ast.SelectorExpr:
		// Another name for a struct.
		if fields := l.structs[qualified(pkg, t.(ast.Expr))]; fields != nil {
			l.structs[pkg+"."+s.Name.Name] = fields
		}
	case *ast.IndexListExpr:
		// typed.Resource[Spec, Extension]
		if len(t.Indices) == 2 {
			l.specOf[pkg+"."+name(t.Indices[1])] = pkg + "." + name(t.Indices[0])
		}
	}
}

// text evaluates a string, a conversion of one, or a constant.
func (l *library) text(pkg string, expression ast.Expr) (string, bool) {
	switch e := expression.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			text, err := strconv.Unquote(e.Value)
			return text, err == nil
		}
	case *ast.CallExpr:
		if len(e.Args) == 1 {
			return l.text(pkg, e.Args[0])
		}
	case *ast.Ident:
		text, ok := l.constants[pkg+"."+e.Name]
		return text, ok
	case *ast.SelectorExpr:
		text, ok := l.constants[name(e.X)+"."+e.Sel.Name]
		return text, ok
	}
	return "", false
}

func (l *library) add(out *table, minor int) {
	for _, r := range l.resources {
		var kind string
		d := definition{Spec: l.specOf[r.pkg+"."+r.receiver]}
		for _, element := range r.literal.Elts {
			pair, ok := element.(*ast.KeyValueExpr)
			if !ok {
				continue
			}
			switch name(pair.Key) {
			case "Type":
				kind, _ = l.text(r.pkg, pair.Value)
			case "DefaultNamespace":
				d.Namespace, _ = l.text(r.pkg, pair.Value)
			case "Sensitivity":
				d.Sensitive = name(pair.Value) == "Sensitive"
			case "SkipAutomaticAliases":
				d.Plain = name(pair.Value) == "true"
			case "Aliases":
				for _, alias := range list(pair.Value) {
					text, _ := l.text(r.pkg, alias)
					d.Aliases = append(d.Aliases, text)
				}
			case "PrintColumns":
				for _, column := range list(pair.Value) {
					var c [2]string
					for _, part := range list(column) {
						if p, ok := part.(*ast.KeyValueExpr); ok {
							text, _ := l.text(r.pkg, p.Value)
							c[map[bool]int{true: 0, false: 1}[name(p.Key) == "Name"]] = text
						}
					}
					d.Columns = append(d.Columns, c)
				}
			}
		}
		if kind == "" {
			continue
		}
		// The oldest release that has a type describes it: its names were seen on real machines.
		if known := out.Types[kind]; known != nil {
			if !slices.Contains(known.Releases, minor) {
				known.Releases = append(known.Releases, minor)
				// Later patches of an older release have what came with a newer one.
				known.Sensitive = known.Sensitive || d.Sensitive
			}
			continue
		}
		d.Releases = []int{minor}
		out.Types[kind] = &d
	}
	for name, fields := range l.structs {
		out.Specs[name] = fields
	}
}

// prune keeps the specs that some type leads to.
func (t *table) prune() {
	keep := map[string][]field{}
	var follow func(string)
	follow = func(spec string) {
		if _, done := keep[spec]; done || t.Specs[spec] == nil {
			return
		}
		keep[spec] = t.Specs[spec]
		for _, f := range t.Specs[spec] {
			follow(f[2][strings.LastIndexAny(f[2], "]*")+1:])
		}
	}
	kinds := make([]string, 0, len(t.Types))
	for kind := range t.Types {
		kinds = append(kinds, kind)
	}
	sort.Strings(kinds)
	for _, kind := range kinds {
		follow(t.Types[kind].Spec)
	}
	t.Specs = keep
}

func list(expression ast.Expr) []ast.Expr {
	if literal, ok := expression.(*ast.CompositeLit); ok {
		return literal.Elts
	}
	return nil
}

func name(expression ast.Expr) string {
	switch e := expression.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.StarExpr:
		return name(e.X)
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

var plain = map[string]bool{"string": true, "bool": true, "int": true, "int8": true, "int16": true, "int32": true, "int64": true, "uint": true,
	"uint8": true, "uint16": true, "uint32": true, "uint64": true, "float64": true, "byte": true, "any": true}

// qualified writes a type with the package it is from.
func qualified(pkg string, expression ast.Expr) string {
	switch e := expression.(type) {
	case *ast.Ident:
		if plain[e.Name] {
			return e.Name
		}
		return pkg + "." + e.Name
	case *ast.SelectorExpr:
		return fmt.Sprint(e.X, ".", e.Sel.Name)
	case *ast.StarExpr:
		return qualified(pkg, e.X)
	case *ast.ArrayType:
		return "[]" + qualified(pkg, e.Elt)
	case *ast.MapType:
		return "map[" + qualified(pkg, e.Key) + "]" + qualified(pkg, e.Value)
	}
	return "unknown"
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "resources:", err)
		os.Exit(1)
	}
}
