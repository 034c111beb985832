package usage

import (
	"compress/gzip"
	"io"
	"iter"
)

// A gunzip decompresses what it is fed, as it is fed, on the caller's goroutine: package gzip reads, so it runs as a
// coroutine that stops where it wants more. By the end of feed it has handed on what the server flushed; what it did
// not flush package flate hands on later, at the latest with the end.
//
// Rejected: a goroutine behind a pipe, which would have to keep up with the body or hold it back.
type gunzip struct {
	input []byte
	yield func(struct{}) bool // waits for input; false at the end
	next  func() (struct{}, bool)
	stop  func()
	err   error
}

func newGunzip(out func([]byte)) *gunzip {
	g := new(gunzip)
	g.next, g.stop = iter.Pull(func(yield func(struct{}) bool) {
		g.yield = yield
		g.err = g.run(out)
	})
	return g
}

func (g *gunzip) feed(chunk []byte) bool {
	if len(chunk) == 0 {
		return true
	}
	g.input = chunk
	_, more := g.next()
	g.input = nil
	return more || g.err == nil
}

func (g *gunzip) end() { g.stop() }

func (g *gunzip) run(out func([]byte)) error {
	reader, err := gzip.NewReader(g)
	if err != nil {
		return err
	}
	buffer := make([]byte, 4<<10)
	for {
		n, err := reader.Read(buffer)
		out(buffer[:n])
		if err != nil {
			return err
		}
	}
}

// ReadByte implements [io.ByteReader], which has package flate take no more than it needs.
func (g *gunzip) ReadByte() (byte, error) {
	if !g.wait() {
		return 0, io.EOF
	}
	b := g.input[0]
	g.input = g.input[1:]
	return b, nil
}

// Read implements [io.Reader].
func (g *gunzip) Read(p []byte) (int, error) {
	if !g.wait() {
		return 0, io.EOF
	}
	n := copy(p, g.input)
	g.input = g.input[n:]
	return n, nil
}

func (g *gunzip) wait() bool {
	for len(g.input) == 0 {
		if !g.yield(struct{}{}) {
			return false
		}
	}
	return true
}
