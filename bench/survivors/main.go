//go:build linux

// Survivors measures which processes outlive a command, for shapes of process trees, ways to end them, and tools.
//
//	GOWORK=off go run ./survivors            every shape once
//	GOWORK=off go run ./survivors -times 20  the largest number of twenty runs
//	GOWORK=off go run ./survivors -write README.md
//
// It prints the number of processes that are alive one second after the tool has finished, as Markdown, or writes that
// into a document. It needs Linux and the command timeout of coreutils.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/seed62658d38/watchdog/internal/escape"
)

// An ending is a way in which a command ends.
type ending string

const (
	atLimit   ending = "limit"
	cancelled ending = "cancel"
	byItself  ending = "exit"
	hostDies  ending = "SIGKILL to the host"
)

var endings = []ending{atLimit, cancelled, byItself, hostDies}

const (
	limit   = 4 * time.Second // more than any shape takes to start
	grace   = time.Second     // the time of timeout -k, and the same for the others
	later   = time.Second
	patient = 30 * time.Second
	workers = 6
)

// A job ends one shape in one way with one tool.
type job struct {
	scenario escape.Scenario
	tool     tool
	ending   ending
	left     int // -1 if the shape does not end in that way
	err      error
}

func main() {
	escape.Main()
	if len(os.Args) == 2 && strings.HasPrefix(os.Args[1], hostRole) {
		os.Exit(beHost(strings.TrimPrefix(os.Args[1], hostRole)))
	}
	times := flag.Int("times", 1, "end each shape that often in each way, and show the most that was left")
	document := flag.String("write", "", "a document, in which the table is written anew")
	flag.Parse()
	jobs := plan()
	for range *times {
		run(jobs)
	}
	text, err := table(jobs)
	if *document != "" {
		err = errors.Join(err, writeInto(*document, text))
	} else {
		_, printed := io.WriteString(os.Stdout, text)
		err = errors.Join(err, printed)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "survivors:", err)
		os.Exit(1)
	}
}

func plan() (jobs []*job) {
	for _, s := range escape.Scenarios() {
		for _, tool := range tools {
			for _, e := range endings {
				jobs = append(jobs, &job{scenario: s, tool: tool, ending: e})
			}
		}
	}
	return jobs
}

// run runs all jobs, a few at a time.
func run(jobs []*job) {
	var all sync.WaitGroup
	room := make(chan struct{}, workers)
	for _, j := range jobs {
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			left, err := j.once()
			j.left, j.err = max(j.left, left), errors.Join(j.err, err)
			if left < 0 {
				j.left = left
			}
		})
	}
	all.Wait()
}

// once starts the shape with the tool, ends it, and counts the processes that are left.
func (j *job) once() (left int, err error) {
	if j.ending == byItself && j.scenario.SurvivesTERM {
		return -1, nil
	}
	folder, err := os.MkdirTemp("", "survivors")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(folder) //nolint:errcheck // the program ends anyway
	s := j.scenario.In(folder)
	defer s.End()
	path, args, env := s.Command()
	text, err := json.Marshal(task{Tool: j.tool.name, Path: path, Args: args})
	if err != nil {
		return 0, err
	}
	host := exec.Command(path, hostRole+string(text)) //nolint:noctx // the program measures how it ends
	host.Env = env
	orders, err := host.StdinPipe()
	if err != nil {
		return 0, err
	}
	if err := host.Start(); err != nil {
		return 0, err
	}
	if err := j.ready(s); err != nil {
		return 0, errors.Join(err, host.Process.Kill(), host.Wait())
	}
	if err := j.end(s, host, orders); err != nil {
		return 0, err
	}
	time.Sleep(later)
	return len(s.Survivors()), nil
}

// ready waits until the shape has started. A shape whose first process exits at once may end before.
func (j *job) ready(s escape.Scenario) error {
	if s.LeaderExits {
		_ = s.Ready(limit / 2)
		return nil
	}
	return s.Ready(patient)
}

// end ends the command and waits for the tool.
func (j *job) end(s escape.Scenario, host *exec.Cmd, orders io.WriteCloser) error {
	var err error
	switch j.ending {
	case cancelled:
		if j.tool.signalled {
			err = host.Process.Signal(syscall.SIGTERM)
		} else {
			err = orders.Close()
		}
	case byItself:
		err = endLeader(s)
	case hostDies:
		err = host.Process.Kill()
	}
	ended := make(chan struct{})
	go func() {
		_ = host.Wait() // any result is fine
		close(ended)
	}()
	select {
	case <-ended:
		return err
	case <-time.After(patient):
		return errors.Join(err, fmt.Errorf("%s has not ended after %v", j.tool.name, patient), host.Process.Kill())
	}
}

// endLeader ends the first process, unless it ends by itself.
func endLeader(s escape.Scenario) error {
	if s.LeaderExits {
		return nil
	}
	if first := escape.Alive(s.Registry()); len(first) > 0 {
		return syscall.Kill(first[0].PID, syscall.SIGTERM)
	}
	return nil
}

// written is the table in a document: from its heading to its last row.
var written = regexp.MustCompile(`(?m)^Processes alive a second later, (?:.+\n)+\n(?:\|.*\n)+`)

// writeInto writes the table into a document that has one.
func writeInto(document, text string) error {
	old, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	if !written.Match(old) {
		return fmt.Errorf("%s has no table that begins with: Processes alive a second later", document)
	}
	return os.WriteFile(document, written.ReplaceAllLiteral(old, []byte(text)), 0o644)
}

// table has a row for each shape, with the number of processes left after each ending for each tool.
func table(jobs []*job) (string, error) {
	var text strings.Builder
	fmt.Fprintf(&text, "Processes alive a second later, after %s.\n\n| shape |", join(endings))
	for _, tool := range tools {
		fmt.Fprintf(&text, " %s |", tool.name)
	}
	text.WriteString("\n|---|" + strings.Repeat("---|", len(tools)) + "\n")
	var errs []error
	escaped := map[string]int{}
	for len(jobs) > 0 {
		fmt.Fprintf(&text, "| %s |", jobs[0].scenario.Name)
		for range tools {
			cell := jobs[:len(endings)]
			jobs = jobs[len(endings):]
			fmt.Fprintf(&text, " %s |", counts(cell))
			if slices.ContainsFunc(cell, func(j *job) bool { return j.left > 0 }) {
				escaped[cell[0].tool.name]++
			}
			for _, j := range cell {
				errs = append(errs, j.err)
			}
		}
		text.WriteString("\n")
	}
	text.WriteString("| **shapes that left something** |")
	for _, tool := range tools {
		fmt.Fprintf(&text, " **%d** |", escaped[tool.name])
	}
	text.WriteString("\n")
	return text.String(), errors.Join(errs...)
}

func counts(cell []*job) string {
	all := make([]string, len(cell))
	for i, j := range cell {
		if all[i] = strconv.Itoa(j.left); j.left < 0 {
			all[i] = "–"
		}
	}
	return strings.Join(all, " / ")
}

func join(all []ending) string {
	names := make([]string, len(all))
	for i, e := range all {
		names[i] = string(e)
	}
	return strings.Join(names, " / ")
}
