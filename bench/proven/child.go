package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
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
