package watchdog_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// settings are the types that a host fills in, by package: those whose fields have a meaning of zero. That of a
// package's own Config is among them in any case.
var settings = map[string][]string{
	".":            {"Budget", "Config", "HoldLimit", "Run", "Spend", "Cancellation", "Amount"},
	"idle":         {"Config"},
	"bound":        {"Call"},
	"loop":         {"Config", "Step"},
	"stall":        {"Config", "Grace", "Probe", "AlsoEnd", "Tail"},
	"watchdoghttp": {"Transport", "Meter", "Maximum"},
	"sweep":        {"Config", "Alert", "ResumePolicy"},
	"session":      {"KeeperConfig"},
	"notify":       {"Config"},
	"page":         {"Config"},
	"converge":     {"Config", "Stage"},
	"config":       {"Config", "Tick"},
}

// measures matches the types of lengths, times, counts and amounts.
var measures = regexp.MustCompile(
	`^(time\.(Duration|Time)|u?int\d*|float64|Money|Totals|map\[string\]int64|\[\]float64)$`)

// sentence matches one of a comment, ofZero what says one that tells of zero, and link a link of a comment.
var (
	sentence = regexp.MustCompile(`(?s)[^.]+(?:\.\S[^.]*)*\.`)
	ofZero   = regexp.MustCompile(`(?i)\b(zero|nil)\b`)
	link     = regexp.MustCompile(`\[\*?([\w.]+)\](\.\w+)?`)
)

const zeroPage = "docs/zero.md"

// TestZero holds the table of what zero means against the comments of the fields, and wants each field that is a
// length, a time, a count or an amount to say it, or its type. Write the table with -update.
func TestZero(t *testing.T) {
	table := "| field | what it says of zero |\n|---|---|\n"
	for _, pkg := range []string{
		".", "idle", "bound", "loop", "stall", "watchdoghttp", "sweep", "session", "notify", "page", "converge", "config",
	} {
		structs := structsOf(t, pkg)
		for name := range structs {
			if strings.HasSuffix(name, "Config") {
				require.Contains(t, settings[pkg], name, "what a host fills in, in package %s", pkg)
			}
		}
		for _, name := range settings[pkg] {
			require.Contains(t, structs, name, pkg)
			table += rowsOf(t, pkg, name, structs[name])
		}
	}
	const begin, end = "<!-- fields -->\n", "<!-- end -->\n"
	text := readText(t, zeroPage)
	before, rest, found := strings.Cut(text, begin)
	require.True(t, found)
	_, after, found := strings.Cut(rest, end)
	require.True(t, found)
	want := before + begin + table + end + after
	if *update {
		require.NoError(t, os.WriteFile(zeroPage, []byte(want), 0o644))
	}
	require.Equal(t, want, readText(t, zeroPage), "run go test . -run TestZero -update, and read what it says now")
}

// A documented is a struct and the comment of its type.
type documented struct {
	doc    string
	fields []*ast.Field
}

// structsOf parses the exported structs of a package.
func structsOf(t *testing.T, pkg string) map[string]documented {
	t.Helper()
	all := map[string]documented{}
	files, err := filepath.Glob(filepath.Join(pkg, "*.go"))
	require.NoError(t, err)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		require.NoError(t, err)
		for _, decl := range file.Decls {
			decl, isGen := decl.(*ast.GenDecl)
			if !isGen {
				continue
			}
			for _, spec := range decl.Specs {
				if spec, isType := spec.(*ast.TypeSpec); isType && spec.Name.IsExported() {
					if s, isStruct := spec.Type.(*ast.StructType); isStruct {
						all[spec.Name.Name] = documented{decl.Doc.Text() + spec.Doc.Text(), s.Fields.List}
					}
				}
			}
		}
	}
	return all
}

// rowsOf are the rows of the fields of a struct that measure something. A comment of several names is one row.
func rowsOf(t *testing.T, pkg, name string, s documented) (rows string) {
	t.Helper()
	short := path.Base(pkg)
	if pkg == "." {
		short = "watchdog"
	}
	var names []string
	said, of := "", ""
	flush := func() {
		if names != nil {
			rows += fmt.Sprintf("| `%s.%s.%s` | %s |\n", short, name, strings.Join(names, "`, `"), said)
		}
		names = nil
	}
	for _, field := range s.fields {
		doc := field.Doc.Text()
		if doc == "" { // it is in the comment of the one before
			doc = of
		}
		if doc != of {
			flush()
		}
		of = doc
		for _, ident := range field.Names {
			if !ident.IsExported() || !measures.MatchString(typeText(field.Type)) {
				continue
			}
			if said = zeroIn(short, doc); said == "" {
				said = zeroIn(short, s.doc)
			}
			require.NotEmpty(t, said, "the comment of %s.%s.%s does not say what zero means", short, name, ident.Name)
			names = append(names, ident.Name)
		}
	}
	flush()
	return rows
}

// zeroIn returns the sentences of a comment that say what zero means, with code in place of its links.
func zeroIn(pkg, doc string) string {
	doc = strings.Join(strings.Fields(doc), " ")
	said := slices.DeleteFunc(sentence.FindAllString(doc, -1), func(s string) bool { return !ofZero.MatchString(s) })
	for i, s := range said {
		said[i] = link.ReplaceAllStringFunc(strings.TrimSpace(s), func(s string) string {
			parts := link.FindStringSubmatch(s)
			name := parts[1] + parts[2]
			if first := strings.ToLower(name[:1]); name[:1] != first {
				name = pkg + "." + name
			}
			return "`" + name + "`"
		})
	}
	return strings.Join(said, " ")
}

// typeText is the type as it is written, as far as a field that measures something has it.
func typeText(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return typeText(e.X) + "." + e.Sel.Name
	case *ast.ArrayType:
		return "[]" + typeText(e.Elt)
	case *ast.MapType:
		return "map[" + typeText(e.Key) + "]" + typeText(e.Value)
	}
	return ""
}
