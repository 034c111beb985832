//go:build linux

package soak_test

import (
	"bufio"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A proxy does to the data what its faults say.
func TestProxy(t *testing.T) {
	t.Run("passes requests and answers", func(t *testing.T) {
		e := startEcho(t)
		c := e.dial(t)
		assert.Equal(t, "one", c.ask("one"))
		assert.Equal(t, "one", e.heard())
	})
	t.Run("cuts what is open, and turns away who connects", func(t *testing.T) {
		e := startEcho(t)
		c := e.dial(t)
		require.Equal(t, "one", c.ask("one"))
		e.proxy.setCut(true)
		assert.Empty(t, c.ask("two"))
		assert.Empty(t, e.dial(t).ask("three"))
		e.proxy.setCut(false)
		assert.Equal(t, "four", e.dial(t).ask("four"))
	})
	t.Run("holds all back, and then delivers", func(t *testing.T) {
		e := startEcho(t)
		c := e.dial(t)
		require.Equal(t, "one", c.ask("one"))
		require.Equal(t, "one", e.heard())
		deliver := e.proxy.hold()
		c.say("two")
		select {
		case word := <-e.words:
			assert.Fail(t, "a word was delivered", word)
		case <-time.After(promise / 10):
		}
		deliver()
		assert.Equal(t, "two", c.hear())
	})
	t.Run("has open lines vanish, and passes new ones", func(t *testing.T) {
		e := startEcho(t)
		c := e.dial(t)
		require.Equal(t, "one", c.ask("one"))
		require.Equal(t, "one", e.heard())
		miss := e.proxy.vanish()
		c.say("two")
		assert.Equal(t, "three", e.dial(t).ask("three"))
		assert.Equal(t, "three", e.heard(), "the second word is lost")
		miss()
		require.NoError(t, c.conn.SetReadDeadline(time.Now().Add(promise/10)))
		assert.Empty(t, c.hear())
		require.ErrorIs(t, c.err, os.ErrDeadlineExceeded, "the client is not told")
	})
	t.Run("loses an answer after the request has arrived", func(t *testing.T) {
		e := startEcho(t)
		c := e.dial(t)
		require.Equal(t, "one", c.ask("one"))
		require.Equal(t, "one", e.heard())
		e.proxy.setLosing(true)
		asked, answered := 0, 0
		for answer := "word"; answer != ""; asked++ {
			if answer = c.ask("word"); answer != "" {
				answered++
			}
			assert.Equal(t, "word", e.heard())
		}
		assert.Equal(t, asked-1, answered)
		assert.Equal(t, int64(1), e.proxy.lost.Load())
	})
}

// An echo is a server behind a proxy that answers each line with itself.
type echo struct {
	proxy *proxy
	words chan string // what it got
}

func startEcho(t *testing.T) *echo {
	t.Helper()
	folder, err := os.MkdirTemp("", "echo") //nolint:usetesting // the path of a socket must be short
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(folder)) })
	socket := filepath.Join(folder, "socket")
	listener, err := net.Listen("unix", socket)
	require.NoError(t, err)
	e := &echo{words: make(chan string, 100)}
	go e.serve(listener)
	t.Cleanup(func() { listener.Close() })
	e.proxy = startProxy(t)
	e.proxy.lead(0, socket)
	return e
}

func (e *echo) serve(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			for lines := bufio.NewScanner(conn); lines.Scan(); {
				e.words <- lines.Text()
				if _, err := conn.Write(append(lines.Bytes(), '\n')); err != nil {
					return
				}
			}
		}()
	}
}

// heard returns the next word that the server got.
func (e *echo) heard() string {
	select {
	case word := <-e.words:
		return word
	case <-time.After(patience):
		return "nothing"
	}
}

// A caller is a client of an echo.
type caller struct {
	conn  net.Conn
	lines *bufio.Reader
	err   error
}

func (e *echo) dial(t *testing.T) *caller {
	t.Helper()
	conn, err := net.Dial("tcp", e.proxy.ports[0].Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	return &caller{conn: conn, lines: bufio.NewReader(conn)}
}

// ask returns the answer to a word, empty if there is none.
func (c *caller) ask(word string) string {
	c.say(word)
	return c.hear()
}

func (c *caller) say(word string) { _, c.err = c.conn.Write([]byte(word + "\n")) }

func (c *caller) hear() string {
	line, err := c.lines.ReadString('\n')
	if c.err = err; err != nil {
		return ""
	}
	return line[:len(line)-1]
}
