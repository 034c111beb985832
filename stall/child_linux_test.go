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

// childArg is the first argument of this program if it is a child of a test. The other arguments are the steps that it
// does, one after the other.
const childArg = "stall-test-child"

// runChild does the steps. A step is a word, and after a colon its argument. The steps of a child of the child are
// separated by semicolons.
func runChild(steps []string) {
	time.AfterFunc(5*time.Minute, func() { os.Exit(98) })
	for _, step := range steps {
		word, argument, _ := strings.Cut(step, ":")
		do, known := childSteps[word]
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

// childSteps is set in init to break an initialization cycle.
var childSteps map[string]func(argument string) error

func init() {
	childSteps = map[string]func(string) error{
		"print":      func(text string) error { _, err := fmt.Println(text); return err },
		"warn":       func(text string) error { _, err := fmt.Fprintln(os.Stderr, text); return err },
		"prompt":     func(text string) error { _, err := fmt.Print(text); return err },
		"stoppable":  stoppable,
		"serve":      serve,
		"talk":       talk,
		"answer":     answer,
		"quiet":      func(string) error { return os.Stdout.Close() },
		"exit":       func(code string) error { os.Exit(number(code)); return nil },
		"sleep":      func(length string) error { time.Sleep(duration(length)); return nil },
		"stay":       func(string) error { time.Sleep(time.Hour); return nil },
		"echo":       func(string) error { _, err := io.Copy(os.Stdout, os.Stdin); return err },
		"ignore":     func(names string) error { signal.Ignore(signalsNamed(names)...); return nil },
		"obey":       obey,
		"kill":       func(name string) error { return syscall.Kill(os.Getpid(), signalsNamed(name)[0].(syscall.Signal)) },
		"every":      every,
		"number":     numberLines,
		"flood":      flood,
		"unmark":     unmark,
		"copy":       copyOnInterrupt,
		"touch":      func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"await":      awaitFile,
		"child":      func(steps string) error { return child(steps, true) },
		"daemon":     func(steps string) error { return child(steps, false) },
		"heir":       heir,
		"count":      count,
		"env":        func(name string) error { return childSteps["print"](os.Getenv(name)) },
		"lines":      awaitLines,
		"full":       fullDisk,
		"host":       host,
		"memory":     memory,
		"idle":       idleRuns,
		"stuck":      stuck,
		"restricted": restricted,
		"unkillable": unkillable,
		"bare":       bare,
		"feed":       feed,
		"terminal":   hostOnTerminal,
		"pwd":        func(string) error { dir, _ := os.Getwd(); return childSteps["print"](dir) },
	}
}

func number(text string) int { n, _ := strconv.Atoi(text); return n }

func duration(text string) time.Duration { d, _ := time.ParseDuration(text); return d }

var signalNames = map[string]syscall.Signal{
	"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL,
	"QUIT": syscall.SIGQUIT, "USR1": syscall.SIGUSR1,
}

func signalsNamed(names string) (all []os.Signal) {
	for name := range strings.SplitSeq(names, ",") {
		all = append(all, signalNames[name])
	}
	return all
}

// obey:TERM:3 exits with a status at a signal.
func obey(argument string) error {
	name, code, _ := strings.Cut(argument, ":")
	got := make(chan os.Signal, 1)
	signal.Notify(got, signalsNamed(name)...)
	go func() {
		<-got
		os.Exit(number(code))
	}()
	return nil
}

// every:10ms:TEXT prints forever, every:10ms:TEXT:20 twenty times.
func every(argument string) error {
	parts := append(strings.Split(argument, ":"), "")
	for n := 0; parts[2] == "" || n < number(parts[2]); n++ {
		if _, err := fmt.Println(parts[1]); err != nil {
			return err
		}
		time.Sleep(duration(parts[0]))
	}
	return nil
}

// number:N prints N numbered lines, alternating between the two outputs.
func numberLines(argument string) error {
	for n := range number(argument) {
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
func flood(argument string) error {
	block := make([]byte, 1<<20)
	for left := number(argument); left > 0; left -= len(block) {
		if _, err := os.Stdout.Write(block[:min(left, len(block))]); err != nil {
			return err
		}
	}
	return nil
}

// unmark changes the limit by which its guard tells whose this process is.
func unmark(string) error {
	const locks = 10
	var limit syscall.Rlimit
	err := syscall.Getrlimit(locks, &limit)
	limit.Cur = limit.Max
	return errors.Join(err, syscall.Setrlimit(locks, &limit))
}

// serve:FILE starts a server in a session of its own that has the outputs of this process.
func serve(path string) error {
	cmd := exec.Command(os.Args[0], childArg, "talk:"+path)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	return awaitFile(path)
}

// talk:FILE prints a kilobyte to both outputs forever, and appends a line to a file each time.
func talk(path string) error {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	text := strings.Repeat("x", 1023)
	for ; err == nil; time.Sleep(time.Millisecond) {
		_, err = fmt.Println(text)
		_, failed := fmt.Fprintln(os.Stderr, text)
		_, late := file.WriteString("talked\n")
		err = errors.Join(err, failed, late)
	}
	return err
}

// answer answers each line of its input until the input ends.
func answer(string) error {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		if _, err := fmt.Println("you said", in.Text()); err != nil {
			return err
		}
	}
	return in.Err()
}

// heir:STEPS starts this program again, in a session of its own and with all three files of this process.
func heir(steps string) error {
	cmd := exec.Command(os.Args[0], append([]string{childArg}, strings.Split(steps, ";")...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd.Start()
}

// copy:FROM:TO copies a file at the first SIGINT and exits.
func copyOnInterrupt(argument string) error {
	from, to, _ := strings.Cut(argument, ":")
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

// child starts this program again, in a session of its own unless here is set, and waits until it has printed a line.
func child(steps string, here bool) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd := exec.Command(os.Args[0], append([]string{childArg}, strings.Split(steps, ";")...)...)
	cmd.Stdout, cmd.Stderr = w, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: !here}
	if err := cmd.Start(); err != nil {
		return err
	}
	_ = w.Close()
	_, err = bufio.NewReader(r).ReadString('\n')
	return err
}

// count:FILE:A,B,C prints one of the words at each run, one after the other, and then always the last.
func count(argument string) error {
	path, list, _ := strings.Cut(argument, ":")
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
	case word == "text":
		word = "all is well"
	case strings.HasPrefix(word, "="): // a class
		word = `{"class": "` + word[1:] + `"}`
	default:
		word = `{"state": {"at": "` + word + `"}}`
	}
	return childSteps["print"](word)
}

// floodSize is more than what pipes hold.
const floodSize = "8388608"

// lines:FILE:N waits until a file has N lines.
func awaitLines(argument string) error {
	path, lines, _ := strings.Cut(argument, ":")
	for {
		if text, _ := os.ReadFile(path); bytes.Count(text, []byte("\n")) >= number(lines) {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
}
