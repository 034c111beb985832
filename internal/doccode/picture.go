package doccode

import (
	"bytes"
	"fmt"
	"html"
	"path"
	"slices"
	"strings"
)

// The measures of the picture, in pixels. It is as wide as a phone, and its text as large as that around it.
const (
	width      = 420
	margin     = 8
	between    = 12 // two layers of a row
	gap        = 40 // two rows
	padding    = 10 // a layer's border and what is in it
	titleSize  = 17
	chipSize   = 15
	chipHeight = 30
	chipGap    = 7
	chipPad    = 9
	noteHeight = 19
)

// legend is what stands under the picture.
var legend = []string{
	"arrow: imports, also of what is further down",
	"dashed: a module of its own",
	"packages.txt has the imports one by one",
}

// Picture draws the list as an SVG: each layer a box with its packages, an arrow for what a layer imports of the row
// below it. A module beside the root is one chip, and so is a package of the root with those inside of it.
func (l *List) Picture() []byte {
	p := &picture{list: l}
	for _, layer := range l.layers {
		p.boxes = append(p.boxes, p.box(layer))
	}
	height := p.place() + len(legend)*noteHeight + padding
	p.out.WriteString(strings.NewReplacer("WIDTH", fmt.Sprint(width), "HEIGHT", fmt.Sprint(height)).Replace(head))
	for _, b := range p.boxes {
		p.drawBox(b)
	}
	for _, b := range p.boxes {
		for _, to := range p.boxes {
			p.drawArrow(b, to)
		}
	}
	for i, text := range legend {
		p.text("note", margin+padding, height-margin-(len(legend)-1-i)*noteHeight, text)
	}
	p.out.WriteString("</svg>\n")
	return p.out.Bytes()
}

const head = `<svg xmlns="http://www.w3.org/2000/svg" width="WIDTH" height="HEIGHT" viewBox="0 0 WIDTH HEIGHT"
  role="img" aria-labelledby="t d">
<title id="t">The packages in their layers</title>
<desc id="d">Drawn from packages.txt, which says the same as text. An arrow is an import; all point down.</desc>
<style>
.box { fill: #f3f5f8; stroke: #c3cad5; }
.chip { fill: #ffffff; stroke: #8f9bae; }
.own { stroke-dasharray: 5 3; }
.arrow { fill: none; stroke: #4b5a72; stroke-width: 2.5; }
.tip { fill: #4b5a72; }
.title { font: 600 17px system-ui, sans-serif; fill: #1b2330; }
.name { font: 15px ui-monospace, Menlo, Consolas, monospace; fill: #1b2330; text-anchor: middle; }
.note { font: 13px ui-monospace, Menlo, Consolas, monospace; fill: #4b5a72; }
@media (prefers-color-scheme: dark) {
.box { fill: #1a212c; stroke: #3b4657; }
.chip { fill: #0d1117; stroke: #66748a; }
.arrow { stroke: #a9b6ca; }
.tip { fill: #a9b6ca; }
.title, .name { fill: #e8edf5; }
.note { fill: #a9b6ca; }
}
</style>
<defs><marker id="tip" markerWidth="5" markerHeight="5" refX="3.5" refY="2.5" orient="auto">
<path class="tip" d="M0 0 5 2.5 0 5z"/></marker></defs>
`

// A picture is one that is being drawn.
type picture struct {
	list  *List
	boxes []*box
	out   bytes.Buffer
}

// A box is a layer in the picture.
type box struct {
	layer      *layer
	x, y, w, h int
	chips      []chip
}

// A chip is a package, or a module, in its box, at a place in it.
type chip struct {
	name    string
	own     bool // a module of its own
	x, y, w int
}

// box fills a box. Its place is not known yet.
func (p *picture) box(of *layer) *box {
	b := &box{layer: of, x: margin, w: width - 2*margin}
	if of.side != "" {
		b.w = (b.w - between) / 2
	}
	if of.side == "right" {
		b.x += b.w + between
	}
	x, y := padding, padding+titleSize+padding
	for _, name := range p.drawn(of) {
		c := chip{name: name, own: p.list.modules[name]}
		c.w = len(c.name)*chipSize*61/100 + 2*chipPad // all letters of its font are as wide
		if x > padding && x+c.w > b.w-padding {
			x, y = padding, y+chipHeight+chipGap
		}
		c.x, c.y = x, y
		b.chips = append(b.chips, c)
		x += c.w + chipGap
	}
	b.h = y + chipHeight + padding
	return b
}

// drawn are the packages of a layer that have a chip.
func (p *picture) drawn(of *layer) (names []string) {
	for _, line := range of.lines {
		if name := p.part(line.name, of); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// part is what a package of the layer is drawn as: itself, or the outermost module or package that it is in.
func (p *picture) part(name string, of *layer) string {
	outermost := name
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if l := p.list.byName[dir]; p.list.modules[dir] || l != nil && l.layer == of {
			outermost = dir
		}
	}
	return outermost
}

// imports reports whether a package of one layer imports one of the other.
func imports(from, to *layer) bool {
	for _, line := range from.lines {
		for _, other := range to.lines {
			if slices.Contains(line.imports, other.name) {
				return true
			}
		}
	}
	return false
}

// place puts the boxes under each other and returns the height of the picture.
func (p *picture) place() int {
	y := margin
	for i, b := range p.boxes {
		b.y = y
		if b.layer.side == "left" { // the next one stands beside it
			b.h = max(b.h, p.boxes[i+1].h)
			p.boxes[i+1].h = b.h
			continue
		}
		y += b.h + gap
	}
	return y - gap + margin
}

func (p *picture) drawBox(b *box) {
	p.rect("box", b.x, b.y, b.w, b.h)
	p.text("title", b.x+padding, b.y+padding+titleSize-3, b.layer.title)
	for _, c := range b.chips {
		class := "chip"
		if c.own {
			class = "chip own"
		}
		p.rect(class, b.x+c.x, b.y+c.y, c.w, chipHeight)
		p.text("name", b.x+c.x+c.w/2, b.y+c.y+chipHeight/2+5, c.name)
	}
}

// drawArrow draws the arrow from a box to one of the next row, if its packages import any of those. One that goes to
// the other side begins and ends beside those that go straight down.
func (p *picture) drawArrow(from, to *box) {
	if to.layer.row != from.layer.row+1 || !imports(from.layer, to.layer) {
		return
	}
	x1, x2 := from.x+from.w/2, to.x+to.w/2
	switch {
	case from.w > to.w:
		x1 = x2
	case from.w < to.w:
		x2 = x1
	case x1 < x2:
		x1, x2 = x1+from.w/4, x2-to.w/4
	case x1 > x2:
		x1, x2 = x1-from.w/4, x2+to.w/4
	}
	p.draw(`<path class="arrow" marker-end="url(#tip)" d="M%d %d L%d %d"/>`, x1, from.y+from.h, x2, to.y-5)
}

func (p *picture) rect(class string, x, y, w, h int) {
	p.draw(`<rect class="%s" x="%d" y="%d" width="%d" height="%d" rx="8"/>`, class, x, y, w, h)
}

func (p *picture) text(class string, x, y int, text string) {
	p.draw(`<text class="%s" x="%d" y="%d">%s</text>`, class, x, y, html.EscapeString(text))
}

func (p *picture) draw(format string, args ...any) { fmt.Fprintf(&p.out, format+"\n", args...) }
