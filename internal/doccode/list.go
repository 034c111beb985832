package doccode

import (
	"fmt"
	"io/fs"
	"strings"
)

// listFile is where the list is in a tree.
const listFile = "docs/packages.txt"

// A List is which packages may import which, in layers from the top to the bottom.
type List struct {
	layers  []*layer
	lines   []*line
	byName  map[string]*line
	modules map[string]bool // the folders of the modules that go.work uses, but for the root
}

// A layer is a group of packages. Two of them can share a row: then they stand beside each other.
type layer struct {
	title string
	row   int
	side  string // "left", "right", or empty for a row of its own
	lines []*line
}

// A line is one package and what it may import.
type line struct {
	layer   *layer
	number  int // in the file
	name    string
	imports []string
}

// List reads docs/packages.txt. The error names the line that cannot be understood.
func (t *Tree) List() (*List, error) {
	text, err := fs.ReadFile(t.files, listFile)
	if err != nil {
		return nil, fmt.Errorf("read the list of packages: %w", err)
	}
	list := &List{byName: map[string]*line{}, modules: t.modules}
	for i, line := range strings.Split(string(text), "\n") {
		line, _, _ = strings.Cut(line, "#")
		if strings.TrimSpace(line) == "" {
			continue
		}
		if flaw := list.add(i+1, line); flaw != "" {
			return nil, fmt.Errorf("%s:%d: %s", listFile, i+1, flaw)
		}
	}
	return list, nil
}

// add takes a line over, or says what is wrong with it.
func (l *List) add(number int, text string) (flaw string) {
	if title, ok := strings.CutPrefix(text, "["); ok {
		return l.addLayer(title)
	}
	if strings.TrimSpace(text[:1]) == "" {
		if len(l.lines) == 0 {
			return "there is no line that this one could continue: begin it without a space"
		}
		last := l.lines[len(l.lines)-1]
		last.imports = append(last.imports, strings.Fields(text)...)
		return ""
	}
	name, imports, ok := strings.Cut(text, ":")
	switch {
	case !ok:
		return fmt.Sprintf("%q is no line: write a package, a colon, and what it imports", text)
	case len(l.layers) == 0:
		return fmt.Sprintf("%s is in no layer: put it below a title in brackets", name)
	case l.byName[name] != nil:
		return fmt.Sprintf("%s has a line already: line %d", name, l.byName[name].number)
	}
	in := l.layers[len(l.layers)-1]
	added := &line{layer: in, number: number, name: name, imports: strings.Fields(imports)}
	in.lines, l.lines = append(in.lines, added), append(l.lines, added)
	l.byName[name] = added
	return ""
}

// addLayer begins a layer, whose title is without the bracket before it.
func (l *List) addLayer(title string) (flaw string) {
	title, side, ok := strings.Cut(title, "]")
	added := &layer{title: title, side: strings.TrimSpace(side)}
	last := &layer{row: -1}
	if len(l.layers) > 0 {
		last = l.layers[len(l.layers)-1]
	}
	added.row = last.row + 1
	switch {
	case !ok || added.side != "" && added.side != "left" && added.side != "right":
		return `this is no layer: write [title], [title] left, or [title] right`
	case last.side == "left" && added.side != "right":
		return fmt.Sprintf("nothing stands to the right of [%s]: mark this layer right, or unmark that one", last.title)
	case added.side == "right" && last.side != "left":
		return "nothing stands to the left of this layer: mark the one before it left"
	case added.side == "right":
		added.row = last.row
	}
	l.layers = append(l.layers, added)
	return ""
}

// at is the line's place for people.
func (l *line) at() string { return fmt.Sprintf("%s:%d", listFile, l.number) }

const moveDown = "move what both need into a package below both"

// flaw says why a package can never import another, whatever its line says, or nothing.
func (l *line) flaw(to *line) string {
	switch {
	case to.number <= l.number:
		return fmt.Sprintf("%s may not import %s, which stands above it in %s: %s", l.name, to.name, listFile, moveDown)
	case to.layer != l.layer && to.layer.row == l.layer.row:
		return fmt.Sprintf("%s may not import %s, whose layer [%s] is beside its own: %s",
			l.name, to.name, to.layer.title, moveDown)
	}
	return ""
}

// Packages are the names in the list, from the top to the bottom. The slice is the caller's.
func (l *List) Packages() (names []string) {
	for _, line := range l.lines {
		names = append(names, line.name)
	}
	return names
}
