// Package progress shows a program's progress. On a terminal it draws one live line about once a second, below the
// permanent lines. Elsewhere it writes the permanent lines only.
//
// The live line is never wider than the terminal and is erased when the program ends. The package counts one column per
// character and shows control characters as question marks.
package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode"

	"golang.org/x/term"
)

// every is the interval between two drawings of the live line.
const every = time.Second

// usualWidth is the width of a terminal that does not report one.
const usualWidth = 80

// eraseLine moves to the start of the line and clears it.
const eraseLine = "\r\x1b[K"

// A Display shows progress. Make one with [New] or [On]. It is safe for concurrent use.
type Display struct {
	out   io.Writer
	width func() int // nil without a terminal

	mu    sync.Mutex
	live  *liveLine // nil without a live line
	drawn bool
	over  chan struct{} // closed by Close
	ended sync.WaitGroup
}

// A liveLine is the line to draw. Its function is called without the display's lock, so that it may take other locks.
type liveLine struct {
	find func() string
	text string
}

// On returns a display on a file. It draws a live line if the file is a terminal that can move its cursor.
func On(file *os.File) *Display {
	descriptor := int(file.Fd())
	if !term.IsTerminal(descriptor) || os.Getenv("TERM") == "dumb" {
		return New(file, nil)
	}
	return New(file, func() int {
		width, _, err := term.GetSize(descriptor)
		if err != nil || width <= 0 {
			return usualWidth
		}
		return width
	})
}

// New returns a display that writes to out. If width is not nil, out is a terminal, and the display calls width before
// each drawing. Close the display after use: one with a terminal costs one goroutine.
func New(out io.Writer, width func() int) *Display {
	d := &Display{out: out, width: width, over: make(chan struct{})}
	if width != nil {
		d.ended.Go(d.keepDrawing)
	}
	return d
}

// Say writes a permanent line. After Close it does nothing.
func (d *Display) Say(format string, args ...any) {
	d.write(fmt.Sprintf(format, args...) + "\n")
}

// Note writes a permanent line unless out is a terminal, where the live line shows the same.
func (d *Display) Note(format string, args ...any) {
	if d.width == nil {
		d.Say(format, args...)
	}
}

// Write writes permanent text, for loggers. The text must end with a line feed.
func (d *Display) Write(text []byte) (int, error) {
	d.write(string(text))
	return len(text), nil
}

// Live sets the text of the live line; nil removes the line. The display calls find for each drawing, also on another
// goroutine, and never without a terminal.
func (d *Display) Live(find func() string) {
	if d.width == nil {
		return
	}
	var line *liveLine
	if find != nil {
		line = &liveLine{find, find()}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.live = line
	d.draw()
}

// Close removes the live line and ends the drawing. Closing again does nothing.
func (d *Display) Close() {
	d.mu.Lock()
	if d.closed() {
		d.mu.Unlock()
		return
	}
	d.live = nil
	d.draw()
	close(d.over)
	d.mu.Unlock()
	d.ended.Wait()
}

func (d *Display) closed() bool {
	select {
	case <-d.over:
		return true
	default:
		return false
	}
}

func (d *Display) keepDrawing() {
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for {
		select {
		case <-ticks.C:
			d.refresh()
		case <-d.over:
			return
		}
	}
}

func (d *Display) refresh() {
	d.mu.Lock()
	line := d.live
	d.mu.Unlock()
	if line == nil {
		return
	}
	text := line.find()
	d.mu.Lock()
	defer d.mu.Unlock()
	line.text = text
	d.draw()
}

// write replaces the live line by text and draws the live line below it, in one write against flicker.
func (d *Display) write(text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed() {
		d.put(d.erased() + text + d.drawing())
	}
}

// draw redraws the live line. The caller holds mu.
func (d *Display) draw() {
	if d.width != nil && !d.closed() {
		d.put(d.erased() + d.drawing())
	}
}

// put ignores the error: there is no other place to report it.
func (d *Display) put(text string) {
	if text != "" {
		_, _ = io.WriteString(d.out, text)
	}
}

func (d *Display) erased() string {
	if !d.drawn {
		return ""
	}
	d.drawn = false
	return eraseLine
}

func (d *Display) drawing() string {
	if d.width == nil || d.live == nil {
		return ""
	}
	d.drawn = true
	return fit(d.live.text, d.width()-1) // some terminals wrap in the last column
}

// fit returns text as one line of at most width characters.
func fit(text string, width int) string {
	letters := []rune(strings.Map(printable, text))
	switch {
	case width <= 0:
		return ""
	case len(letters) <= width:
		return string(letters)
	case width <= len(ellipsis):
		return string(letters[:width])
	}
	return string(letters[:width-len(ellipsis)]) + ellipsis
}

const ellipsis = "..."

func printable(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return '?'
}
