package tables

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"text/template"
)

// marked is a table with the comments around it.
var marked = regexp.MustCompile(`(?s)(<!-- table ([\w-]+)[^>]*-->\n)(.*?)(<!-- end of table -->)`)

// Write returns a document with its tables written anew: what stands between <!-- table NAME --> and
// <!-- end of table --> is what the template of that name says of the results. It fails where a table has no template
// or a template no table, and where one names a benchmark that has no result.
//
// Templates have these functions: ns, mem and allocs return a benchmark's time, bytes and allocations for each
// operation, of what it reports in a unit of its own; all are medians. Per is the ratio of two of them and more their
// difference; atMost and atLeast say whether one reaches what it should.
func Write(document, templates string, r Results) (string, error) {
	of := func(name, unit string) (Figure, error) {
		value, err := r.median(name, unit)
		return figureOf(value, unit), err
	}
	in := func(unit string) func(string) (Figure, error) {
		return func(name string) (Figure, error) { return of(name, unit) }
	}
	all, err := template.New("").Funcs(template.FuncMap{
		"of": of, "ns": in("ns/op"), "mem": in("B/op"), "allocs": in("allocs/op"),
		"per": per, "more": more, "atMost": atMost, "atLeast": atLeast,
	}).Parse(templates)
	if err != nil {
		return "", fmt.Errorf("read the templates: %w", err)
	}
	return writeEach(document, all)
}

// WriteAll is Write for several documents, each table of which stands in one of them.
func WriteAll(documents []string, templates string, r Results) ([]string, error) {
	const between = "\x00"
	written, err := Write(strings.Join(documents, between), templates, r)
	return strings.Split(written, between), err
}

// writeEach writes each table with its template.
func writeEach(document string, all *template.Template) (string, error) {
	var errs []error
	written := map[string]bool{"": true}
	document = marked.ReplaceAllStringFunc(document, func(text string) string {
		part := marked.FindStringSubmatch(text)
		var table strings.Builder
		if err := all.ExecuteTemplate(&table, part[2], nil); err != nil {
			errs = append(errs, fmt.Errorf("write table %s: %w", part[2], err))
		}
		written[part[2]] = true
		return part[1] + "\n" + strings.ReplaceAll(strings.TrimSpace(table.String()), "|  ", "| ") + "\n\n" + part[4]
	})
	for _, t := range all.Templates() {
		if !written[t.Name()] {
			errs = append(errs, fmt.Errorf("no table %s is marked in the document", t.Name()))
		}
	}
	return document, errors.Join(errs...)
}
