package main_test

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/seed62658d38/watchdog/internal/escape/script"
)

// childPrefix begins the first argument of a process that this test binary runs as a command. The other arguments are
// its steps.
const childPrefix = "watchdog-test-child-"

var stepFuncs = script.Common()

func init() {
	maps.Copy(stepFuncs, script.Steps{
		"say":          stepFuncs["print"],
		"leave":        startBackground,
		"answer":       echoLine,
		"ask":          askModel,
		"askAll":       askAll,
		"breakOff":     breakOff,
		"askLiterally": askLiterally,
		"curl":         curlModel,
		"env":          func(name string) error { _, err := fmt.Println(name + "=" + os.Getenv(name)); return err },
		"raw":          func(string) error { _, err := term.MakeRaw(0); return err },
		"prompt":       func(text string) error { _, err := fmt.Print(text); return err },
		"count":        countInterrupts,
		"quit":         tellQuit,
		"tick":         tick,
		"sizes":        tellSizes,
		"type":         typeKeys,
	})
}

// tick:8 prints so many lines in as many fifths of a second. Like most programs it buffers them unless they go to a
// terminal.
func tick(times string) error {
	out := bufio.NewWriter(os.Stdout)
	for n := range script.Number(times) {
		_, _ = fmt.Fprintln(out, n)
		if term.IsTerminal(1) {
			_ = out.Flush()
		}
		time.Sleep(200 * time.Millisecond)
	}
	return out.Flush()
}

// sizes:44 prints the size of its terminal, and again when it has changed, until it has so many columns.
func tellSizes(last string) error {
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	for {
		width, height, err := term.GetSize(1)
		if err != nil {
			return err
		}
		fmt.Printf("%d columns, %d rows\n", width, height)
		if width == script.Number(last) {
			return nil
		}
		<-changed
	}
}

// typeKeys tells of each key of a raw terminal, until one is q.
func typeKeys(string) error {
	before, err := term.MakeRaw(0)
	if err != nil {
		return err
	}
	defer term.Restore(0, before)
	fmt.Print("ready\r\n")
	for {
		key, err := input.ReadByte()
		if err != nil || key == 'q' {
			return err
		}
		fmt.Printf("key %d\r\n", key)
	}
}

// leave starts a background process in a session of its own. A stubborn one obeys SIGKILL only, and warns when it does,
// an asking one calls a model.
func startBackground(kind string) error {
	steps := []string{os.Args[1], "stay"}
	if kind == "stubborn" {
		steps = []string{os.Args[1], "ignore:INT", "ignore:TERM", "warn:fatal", "stay"}
	}
	if kind == "asking" {
		steps = []string{os.Args[1], "ask:anthropic+stream+quiet", "stay"}
	}
	cmd := exec.Command(os.Args[0], steps...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if kind == "stubborn" {
		cmd.Stderr = os.Stderr
	}
	return cmd.Start()
}

var input = bufio.NewReader(os.Stdin)

// echoLine reads a line and prints it.
func echoLine(string) error {
	line, err := input.ReadString('\n')
	if err != nil {
		return err
	}
	_, err = fmt.Print("answer: ", line)
	return err
}

// tellQuit:CODE prints a line at SIGQUIT and exits.
func tellQuit(code string) error {
	received := make(chan os.Signal, 1)
	signal.Notify(received, syscall.SIGQUIT)
	fmt.Println("ready")
	<-received
	fmt.Println("quit")
	os.Exit(script.Number(code))
	return nil
}

// countInterrupts waits for an interrupt and, after another line of input, prints how many came.
func countInterrupts(string) error {
	received := make(chan os.Signal, 10)
	signal.Notify(received, syscall.SIGINT)
	fmt.Println("counting")
	var interrupts atomic.Int32
	go func() {
		for range received {
			interrupts.Add(1)
			fmt.Println("interrupted")
		}
	}()
	if _, err := input.ReadString('\n'); err != nil {
		return err
	}
	_, err := fmt.Println("interrupts:", interrupts.Load())
	return err
}
