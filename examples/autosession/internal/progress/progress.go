// Package progress shows a person how far a program is: on a terminal as one live line that is drawn anew about once a
// second, below the lines that stay; elsewhere as the lines that stay, alone.
//
// The live line is never wider than the terminal and is gone when the program ends. Texts are taken to be one column per
// character; control characters in them are shown as a question mark.
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

// every is how often the live line is drawn.
const every = time.Second

// usualWidth is assumed of a terminal that does not tell its width.
const usualWidth = 80

// eraseLine goes to the start of the line and empties it.
const eraseLine = "\r\x1b[K"

// A Display is where progress is shown. Make one with [New] or [On]. Safe for concurrent use.
type Display struct {
	out   io.Writer
	width func() int // nil where there is no terminal

	mu    sync.Mutex
	live  *liveLine // nil while nothing is live
	drawn bool
	over  chan struct{} // closed by Close
	ended sync.WaitGroup
}

// A liveLine is what to draw. The text is found without the display's lock, so that finding it may take other locks.
type liveLine struct {
	find func() string
	text string
}

// On returns a display on a file: live where that is a terminal that can move its cursor.
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

// New returns a display that writes to out, which is a terminal if width is given; width is asked before each drawing.
// Close the display when it is no longer needed. A live one costs one goroutine.
func New(out io.Writer, width func() int) *Display {
	d := &Display{out: out, width: width, over: make(chan struct{})}
	if width != nil {
		d.ended.Go(d.keepDrawing)
	}
	return d
}

// Say shows a line that stays. After Close it does nothing: who speaks then, on a goroutine of its own, is too late.
func (d *Display) Say(format string, args ...any) {
	d.write(fmt.Sprintf(format, args...) + "\n")
}

// Note is [Display.Say] for what a live line tells already: it does nothing on a terminal.
func (d *Display) Note(format string, args ...any) {
	if d.width == nil {
		d.Say(format, args...)
	}
}

// Write shows text that stays and ends with a line feed, as loggers write it.
func (d *Display) Write(text []byte) (int, error) {
	d.write(string(text))
	return len(text), nil
}

// Live sets what the live line says; nil takes the line away. The function is called for each drawing, also on another
// goroutine, and not where there is no terminal.
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

// Close takes the live line away and ends the drawing. Closing again does nothing.
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

// write puts text where the live line is, and the live line below it. One write, so that nothing flickers.
func (d *Display) write(text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed() {
		d.put(d.erased() + text + d.drawing())
	}
}

// draw brings the live line up to date. The caller holds mu.
func (d *Display) draw() {
	if d.width != nil && !d.closed() {
		d.put(d.erased() + d.drawing())
	}
}

// put has nowhere to report that the terminal is gone.
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
	return fit(d.live.text, d.width()-1) // in the last column some terminals wrap
}

// fit makes a text one line of at most width characters.
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
