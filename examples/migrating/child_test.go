package migrating_test

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// runChild does what a command of a test does, step by step. A step is a word, and after a colon its argument.
func runChild(steps []string) {
	time.AfterFunc(5*time.Minute, func() { os.Exit(98) })
	for _, step := range steps {
		word, argument, _ := strings.Cut(step, ":")
		if err := childStep(word, argument); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(97)
		}
	}
	os.Exit(0)
}

func childStep(word, argument string) error {
	switch word {
	case "print":
		fmt.Println(argument)
	case "sleep":
		length, err := time.ParseDuration(argument)
		time.Sleep(length)
		return err
	case "fail":
		os.Exit(3)
	case "ignore": // SIGTERM
		signal.Ignore(syscall.SIGTERM)
	case "child":
		return startChild(nil, argument)
	case "daemon":
		return startChild(newSession, argument)
	default:
		return fmt.Errorf("no such step: %s", word)
	}
	return nil
}

// startChild starts this program again, with the steps that are separated by semicolons and the same output.
func startChild(attr *syscall.SysProcAttr, steps string) error {
	cmd := exec.Command(os.Args[0], append(os.Args[1:2:2], strings.Split(steps, ";")...)...)
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = os.Stdout, os.Stderr, attr
	return cmd.Start()
}
