package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
)

// A console is where people read and answer. It is safe for concurrent use.
type console struct {
	in  io.Reader
	out io.Writer

	mu    sync.Mutex
	lines chan string // what they type, once somebody has asked
}

func (c *console) say(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = fmt.Fprintln(c.out, strings.TrimRight(fmt.Sprintf(format, args...), "\n"))
}

// agrees asks a question and waits for an answer. The end of the input is a no.
func (c *console) agrees(ctx context.Context, question string) (bool, error) {
	c.say("%s [y/N]", question)
	c.mu.Lock()
	if c.lines == nil {
		c.lines = make(chan string)
		go func() { // a read cannot be given up: it ends with the program
			defer close(c.lines)
			for in := bufio.NewScanner(c.in); in.Scan(); {
				c.lines <- in.Text()
			}
		}()
	}
	c.mu.Unlock()
	select {
	case line := <-c.lines:
		return strings.EqualFold(strings.TrimSpace(line), "y"), nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}
