package doccode

import (
	"fmt"
	"go/ast"
	"go/types"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Settings are the types of a package that a host fills in.
type Settings struct {
	Package string // its folder
	Types   []string
}

// measures matches the types of lengths, times, counts and amounts.
var measures = regexp.MustCompile(
	`^(time\.(Duration|Time)|u?int\d*|float64|Money|Totals|map\[string\]int64|\[\]float64)$`)

// sentence matches one of a comment, ofZero what says one that tells of zero, and link a link of a comment.
var (
	sentence = regexp.MustCompile(`[^.]+(?:\.\S[^.]*)*\.`)
	ofZero   = regexp.MustCompile(`(?i)\b(zero|nil)\b`)
	link     = regexp.MustCompile(`\[\*?([\w.]+)\](\.\w+)?`)
)

// Zero returns a table of what the comments of the fields say of zero, a line for each comment: of those that are
// lengths, times, counts or amounts. What the comment of a field does not say that of its type does. The problems are
// fields of which neither says it, types that there are not, and those whose name ends in Config and which are not
// among the settings.
func (t *Tree) Zero(all []Settings) (table string, problems []string) {
	z := &zero{}
	for _, of := range all {
		z.pkg = path.Base(of.Package)
		if of.Package == "." {
			z.pkg = "watchdog"
		}
		declared := t.packages[of.Package].names.types
		for _, name := range of.Types {
			z.add(name, declared[name])
		}
		for _, name := range slices.Sorted(maps.Keys(declared)) {
			if ast.IsExported(name) && strings.HasSuffix(name, "Config") && !slices.Contains(of.Types, name) {
				z.problems = append(z.problems, fmt.Sprintf("%s.%s is not among the settings", z.pkg, name))
			}
		}
	}
	return z.table.String(), z.problems
}

// zero is a table in the making.
type zero struct {
	pkg      string
	table    strings.Builder
	problems []string
}

// add adds the rows of a struct. Fields that follow one another without a comment are in that of the first.
func (z *zero) add(of string, s *declaredType) {
	if s == nil {
		z.problems = append(z.problems, fmt.Sprintf("there is no struct %s.%s", z.pkg, of))
		return
	}
	var names []string
	doc := ""
	for _, field := range s.members {
		if own := field.Doc.Text(); own != "" {
			z.addRow(of, names, doc, s.doc)
			names, doc = nil, own
		}
		for _, name := range field.Names {
			if name.IsExported() && measures.MatchString(types.ExprString(field.Type)) {
				names = append(names, name.Name)
			}
		}
	}
	z.addRow(of, names, doc, s.doc)
}

func (z *zero) addRow(of string, fields []string, doc, typeDoc string) {
	if len(fields) == 0 {
		return
	}
	fields[0] = fmt.Sprintf("%s.%s.%s", z.pkg, of, fields[0])
	said := z.said(doc)
	if said == "" {
		said = z.said(typeDoc)
	}
	if said == "" {
		z.problems = append(z.problems, fmt.Sprintf("the comment of %s does not say what zero means", fields[0]))
	}
	fmt.Fprintf(&z.table, "| `%s` | %s |\n", strings.Join(fields, "`, `"), said)
}

// said returns the sentences of a comment that tell of zero, with code in place of its links.
func (z *zero) said(doc string) string {
	doc = strings.Join(strings.Fields(doc), " ")
	said := slices.DeleteFunc(sentence.FindAllString(doc, -1), func(s string) bool { return !ofZero.MatchString(s) })
	for i, s := range said {
		said[i] = link.ReplaceAllStringFunc(strings.TrimSpace(s), func(s string) string {
			parts := link.FindStringSubmatch(s)
			name := parts[1] + parts[2]
			if ast.IsExported(name) {
				name = z.pkg + "." + name
			}
			return "`" + name + "`"
		})
	}
	return strings.Join(said, " ")
}
