// Package script is the child process of a test: the test's own program, executed again, which does the steps in its
// arguments one after the other. A step is a word and, after a colon, its argument.
//
// The package is for tests. It starts no process, and a test adds the steps that it alone needs.
package script

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Steps are what the words do with their arguments.
type Steps map[string]func(argument string) error

// Common returns the steps that are not of one test alone.
func Common() Steps {
	return Steps{
		"print":     func(text string) error { _, err := fmt.Println(text); return err },
		"warn":      func(text string) error { _, err := fmt.Fprintln(os.Stderr, text); return err },
		"echo":      func(string) error { _, err := io.Copy(os.Stdout, os.Stdin); return err },
		"alternate": alternate,
		"stay":      func(string) error { time.Sleep(time.Hour); return nil },
		"exit":      func(code string) error { os.Exit(Number(code)); return nil },
		"ignore":    func(names string) error { signal.Ignore(signalsNamed(names)...); return nil },
		"obey":      obey,
		"kill":      kill,
		"touch":     Touch,
		"await":     Await,
	}
}

// Do does the steps and ends the process, after five minutes at the latest.
func (s Steps) Do(steps []string) {
	time.AfterFunc(5*time.Minute, func() { os.Exit(98) })
	for _, step := range steps {
		word, argument, _ := strings.Cut(step, ":")
		do, known := s[word]
		if !known {
			fmt.Fprintln(os.Stderr, "no such step:", word)
			os.Exit(97)
		}
		if err := do(argument); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(96)
		}
	}
	os.Exit(0)
}

// Number returns the number in an argument, 0 if there is none.
func Number(text string) int { n, _ := strconv.Atoi(text); return n }

// Signals are the signals of the steps by their names. A test may add others.
var Signals = map[string]syscall.Signal{
	"HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "KILL": syscall.SIGKILL, "QUIT": syscall.SIGQUIT,
	"TERM": syscall.SIGTERM,
}

func signalsNamed(names string) (all []os.Signal) {
	for name := range strings.SplitSeq(names, ",") {
		all = append(all, Signals[name])
	}
	return all
}

// alternate:N prints N numbered lines, in turn to the two outputs.
func alternate(argument string) error {
	for n := range Number(argument) {
		file := os.Stdout
		if n%2 == 1 {
			file = os.Stderr
		}
		if _, err := fmt.Fprintln(file, n); err != nil {
			return err
		}
	}
	return nil
}

// obey:TERM:3 has the process exit with a status when it gets the signal.
func obey(argument string) error {
	name, code, _ := strings.Cut(argument, ":")
	got := make(chan os.Signal, 1)
	signal.Notify(got, Signals[name])
	go func() {
		<-got
		os.Exit(Number(code))
	}()
	return nil
}

func kill(name string) error {
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		return err
	}
	return self.Signal(Signals[name])
}

// Touch makes an empty file.
func Touch(path string) error { return os.WriteFile(path, nil, 0o600) }

// Await waits until there is a file.
func Await(path string) error {
	for {
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}
