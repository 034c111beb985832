package stall_test

import (
	"bufio"
	"bytes"
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
)

// actor is the first argument of this program where it plays a command; the others are its steps, one after the other.
const actor = "stall-test-actor"

// act does the steps. A step is a word and, after a colon, what it is about; steps of a child are divided by semicolons.
func act(steps []string) {
	time.AfterFunc(5*time.Minute, func() { os.Exit(98) })
	for _, step := range steps {
		word, about, _ := strings.Cut(step, ":")
		do, known := acts[word]
		if !known {
			fmt.Fprintln(os.Stderr, "no such step:", word)
			os.Exit(97)
		}
		if err := do(about); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(96)
		}
	}
	os.Exit(0)
}

var acts map[string]func(about string) error

func init() {
	acts = map[string]func(string) error{
		"print":  func(text string) error { _, err := fmt.Println(text); return err },
		"warn":   func(text string) error { _, err := fmt.Fprintln(os.Stderr, text); return err },
		"exit":   func(code string) error { os.Exit(number(code)); return nil },
		"sleep":  func(length string) error { time.Sleep(duration(length)); return nil },
		"stay":   func(string) error { time.Sleep(time.Hour); return nil },
		"echo":   func(string) error { _, err := io.Copy(os.Stdout, os.Stdin); return err },
		"ignore": func(names string) error { signal.Ignore(signalsNamed(names)...); return nil },
		"obey":   obey,
		"kill":   func(name string) error { return syscall.Kill(os.Getpid(), signalsNamed(name)[0].(syscall.Signal)) },
		"every":  every,
		"orders": orders,
		"flood":  flood,
		"keep":   keep,
		"copy":   copyOnInterrupt,
		"touch":  func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"await":  awaitFile,
		"child":  func(steps string) error { return child(steps, true) },
		"daemon": func(steps string) error { return child(steps, false) },
		"count":  count,
		"env":    func(name string) error { return acts["print"](os.Getenv(name)) },
		"lines":  awaitLines,
		"full":   fullDisk,
		"host":   host,
		"gauge":  gauge,
		"pwd":    func(string) error { dir, _ := os.Getwd(); return acts["print"](dir) },
	}
}

func number(text string) int { n, _ := strconv.Atoi(text); return n }

func duration(text string) time.Duration { d, _ := time.ParseDuration(text); return d }

func signalsNamed(names string) (all []os.Signal) {
	for name := range strings.SplitSeq(names, ",") {
		all = append(all, map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL}[name])
	}
	return all
}

// obey:TERM:3 ends with a status at a signal.
func obey(about string) error {
	name, code, _ := strings.Cut(about, ":")
	got := make(chan os.Signal, 1)
	signal.Notify(got, signalsNamed(name)...)
	go func() {
		<-got
		os.Exit(number(code))
	}()
	return nil
}

// every:10ms:TEXT prints for ever, every:10ms:TEXT:20 twenty times.
func every(about string) error {
	parts := append(strings.Split(about, ":"), "")
	for n := 0; parts[2] == "" || n < number(parts[2]); n++ {
		if _, err := fmt.Println(parts[1]); err != nil {
			return err
		}
		time.Sleep(duration(parts[0]))
	}
	return nil
}

// orders:N prints numbered lines to both outputs in turn.
func orders(about string) error {
	for n := range number(about) {
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

// flood:BYTES writes zeros, without a newline.
func flood(about string) error {
	block := make([]byte, 1<<20)
	for left := number(about); left > 0; left -= len(block) {
		if _, err := os.Stdout.Write(block[:min(left, len(block))]); err != nil {
			return err
		}
	}
	return nil
}

// keep:FILE appends to a file of its own for ever.
func keep(path string) error {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	for ; err == nil; time.Sleep(10 * time.Millisecond) {
		_, err = file.WriteString("kept\n")
	}
	return err
}

// copy:FROM:TO copies a file at the first SIGINT and ends.
func copyOnInterrupt(about string) error {
	from, to, _ := strings.Cut(about, ":")
	got := make(chan os.Signal, 1)
	signal.Notify(got, syscall.SIGINT)
	go func() {
		<-got
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(to, text, 0o600)
		}
		if err != nil {
			os.Exit(95)
		}
		os.Exit(0)
	}()
	return nil
}

func awaitFile(path string) error {
	for {
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

// child starts this program again, and waits until it has printed a line to a pipe of its own.
func child(steps string, here bool) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd := exec.Command(os.Args[0], append([]string{actor}, strings.Split(steps, ";")...)...)
	cmd.Stdout, cmd.Stderr = w, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: !here}
	if err := cmd.Start(); err != nil {
		return err
	}
	_ = w.Close()
	_, err = bufio.NewReader(r).ReadString('\n')
	return err
}

// count:FILE:A,B,C prints the words one after the other, one at each run, then the last for ever.
func count(about string) error {
	path, list, _ := strings.Cut(about, ":")
	text, _ := os.ReadFile(path)
	all := strings.Split(list, ",")
	turn := min(bytes.Count(text, []byte("\n")), len(all)-1)
	if err := os.WriteFile(path, append(text, '\n'), 0o600); err != nil {
		return err
	}
	word := all[turn]
	switch {
	case word == "fail":
		os.Exit(3)
	case word == "hang":
		time.Sleep(time.Hour)
	case word == "long":
		word = strings.Repeat(" ", 64<<10) + "{}"
	case word == "text":
		word = "all is well"
	case strings.HasPrefix(word, "="): // a class
		word = `{"class": "` + word[1:] + `"}`
	default:
		word = `{"state": {"at": "` + word + `"}}`
	}
	return acts["print"](word)
}

// floodSize is more than what pipes hold.
const floodSize = "8388608"

// lines:FILE:N waits until a file has so many lines.
func awaitLines(about string) error {
	path, lines, _ := strings.Cut(about, ":")
	for {
		if text, _ := os.ReadFile(path); bytes.Count(text, []byte("\n")) >= number(lines) {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
}
