package main

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// patience is how long a check may take.
const patience = time.Minute

// A census counts processes: each is alive for as long as its connection is, which its system closes. Numbers of
// processes could be used again. A process ends when the census does, so that none outlives the program.
type census struct {
	listener net.Listener
	mu       sync.Mutex
	started  int
	open     map[net.Conn]bool
}

func newCensus() (*census, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it listens at once
	if err != nil {
		return nil, err
	}
	c := &census{listener: listener, open: map[net.Conn]bool{}}
	go c.accept()
	return c, nil
}

func (c *census) accept() {
	for {
		conn, err := c.listener.Accept()
		if err != nil {
			return
		}
		c.mu.Lock()
		c.started++
		c.open[conn] = true
		c.mu.Unlock()
		go func() {
			_, _ = io.Copy(io.Discard, conn) // until the process ends
			c.mu.Lock()
			defer c.mu.Unlock()
			delete(c.open, conn)
			_ = conn.Close()
		}()
	}
}

// count returns how many processes have started, and how many of them are alive.
func (c *census) count() (started, alive int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.started, len(c.open)
}

// wait waits until so many processes have started, and reports whether they have.
func (c *census) wait(started int) bool {
	for until := time.Now().Add(patience / 2); time.Now().Before(until); time.Sleep(time.Millisecond) {
		if n, _ := c.count(); n >= started {
			return true
		}
	}
	return false
}

// settled returns how many processes are alive, after those that are dying had a second for that.
func (c *census) settled() int {
	for until := time.Now().Add(time.Second); time.Now().Before(until); time.Sleep(time.Millisecond) {
		if _, alive := c.count(); alive == 0 {
			break
		}
	}
	_, alive := c.count()
	return alive
}

// close ends all processes that are alive.
func (c *census) close() {
	_ = c.listener.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn := range c.open {
		_ = conn.Close()
	}
}

// censusVariable names the address of the census in a child's environment.
const censusVariable = "WATCHDOG_PROVEN_CENSUS"

// join has this process be counted. What it returns blocks until the census ends.
func join() (stay func(), err error) {
	conn, err := net.Dial("tcp", os.Getenv(censusVariable)) //nolint:noctx // it ends with the process
	if err != nil {
		return nil, err
	}
	return func() { _, _ = io.Copy(io.Discard, conn) }, nil
}
