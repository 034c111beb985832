package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/seed62658d38/watchdog/stall"
)

// childMark is the first argument of a process that this program starts, its role and the role's arguments follow.
const childMark = "proven-child"

// roles are what a child does.
var roles = map[string]func(args []string) error{
	"exit":   func(args []string) error { os.Exit(number(args[0])); return nil },
	"echo":   func([]string) error { _, err := io.Copy(os.Stdout, os.Stdin); return err },
	"print":  func(args []string) error { return long(number(args[0])) },
	"tick":   func(args []string) error { return tick(number(args[0])) },
	"same":   func([]string) error { _, err := fmt.Println(`{"state": "the same"}`); return err },
	"tree":   func(args []string) error { return tree(number(args[0]), number(args[1])) },
	"parent": parent,
	"polite": func([]string) error { return polite() },
	"rude":   func([]string) error { signal.Ignore(os.Interrupt, syscall.SIGTERM); return tree(0, 0) },
	"host":   func([]string) error { return host() },
}

// beChild returns the exit status of a role.
func beChild(args []string) int {
	time.AfterFunc(5*time.Minute, func() { os.Exit(3) })
	if err := roles[args[0]](args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, args, err)
		return 2
	}
	return 0
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return n
}

// self is this program in a role.
func self(role ...string) *exec.Cmd {
	path, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return exec.Command(path, append([]string{childMark}, role...)...) //nolint:noctx // the program measures how it ends
}

// blockOf is a line of 1 KiB of a long output, which no two places of it share.
func blockOf(n int) []byte { return []byte(fmt.Sprintf("%01023d\n", n)) }

// long prints so many MiB.
func long(size int) error {
	out := bufio.NewWriterSize(os.Stdout, 64<<10)
	for n := range size << 10 {
		if _, err := out.Write(blockOf(n)); err != nil {
			return err
		}
	}
	return out.Flush()
}

// tick prints so many lines, 100 ms apart.
func tick(lines int) error {
	for range lines {
		time.Sleep(100 * time.Millisecond)
		fmt.Println("tick")
	}
	return nil
}

// tree is counted, starts so many children, each with as many of its own at so many levels, and stays.
func tree(width, depth int) error {
	stay, err := join()
	if err != nil {
		return err
	}
	for range min(width, width*depth) {
		if err := self("tree", strconv.Itoa(width), strconv.Itoa(depth-1)).Start(); err != nil {
			return err
		}
	}
	stay()
	return nil
}

// parent starts a child in a way of this system, with the same output, and prints what came of that. With "exit" it
// ends, otherwise it stays.
func parent(args []string) error {
	child := self("tree", "0", "0")
	child.Stdout, child.SysProcAttr = os.Stdout, ways[args[0]]
	err := child.Start()
	if errors.Is(err, os.ErrPermission) {
		fmt.Println("refused")
		return nil
	}
	if err != nil || args[1] == "exit" {
		return err
	}
	return tree(0, 0)
}

// polite ends with status 5 when it is asked to.
func polite() error {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, os.Interrupt)
	stay, err := join()
	if err != nil {
		return err
	}
	go func() {
		<-asked
		os.Exit(5)
	}()
	stay()
	return nil
}

// host runs a tree under package stall.
func host() error {
	_, err := stall.Run(context.Background(), self(strings.Fields("tree 2 2")...), stall.Config{Step: "tree"})
	return err
}

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
