//go:build unix

package stall_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/stall"
)

// Run ends a command that prints nothing, and the error says why.
func ExampleRun() {
	store := &watchdog.Memory{}
	result, err := stall.Run(context.Background(), exec.Command("sleep", "600"), stall.Config{
		Step: "build", RunID: "s-1", Store: store, NoOutput: 200 * time.Millisecond,
	})
	fmt.Println(errors.Is(err, watchdog.CommandNoOutput), result.EndedBy, result.Trip.Fingerprints)
	events, _ := store.Read(context.Background(), event.AggregateType, "s-1/build")
	fmt.Println(len(events), events[0].Type)
	// Output:
	// true interrupt [stall/no_output:never]
	// 1 runtime.watchdog.cancel
}

// Without a limit a step's name is all that Run needs. The command and all that it started end with the context.
func ExampleRun_treeKill() {
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	_, err := stall.Run(ctx, exec.Command("sh", "-c", "sleep 600 | sleep 600"), stall.Config{Step: "build"})
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	// Output: true
}

// A host talks to a command and waits for it. If the command fell silent, its output would end.
func ExampleCommand() {
	c, err := stall.NewCommand(exec.Command("cat"), stall.Config{
		Step: "agent", Store: &watchdog.Memory{}, NoOutput: time.Minute,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	in, _ := c.StdinPipe() // they fail only if they are called out of order, or there are too many open files
	out, _ := c.StdoutPipe()
	if err := c.Start(context.Background()); err != nil {
		fmt.Println(err)
		return
	}
	answers := bufio.NewScanner(out)
	for _, question := range []string{"who are you?", "are you sure?"} {
		fmt.Fprintln(in, question)
		if answers.Scan() {
			fmt.Println("it says:", answers.Text())
		}
	}
	in.Close()
	result, err := c.Wait()
	fmt.Println(result.ExitCode, err)
	// Output:
	// it says: who are you?
	// it says: are you sure?
	// 0 <nil>
}

// A command that fails has the error of package exec.
func ExampleRun_exitError() {
	cmd := exec.Command("sh", "-c", "exit 3")
	_, err := stall.Run(context.Background(), cmd, stall.Config{Step: "build"})
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		fmt.Println(exit, exit.Pid() == cmd.ProcessState.Pid())
	}
	// Output: exit status 3 true
}

// Inside a watchdog's context the command is a layer of that run: its output is activity of the run, and the command
// ends with the run.
func ExampleRun_insideARun() {
	run := watchdog.Run{ID: "s-1", StartedAt: time.Now()}
	wd, err := watchdog.New(context.Background(), run, watchdog.Config{
		Store: &watchdog.Memory{}, Budget: watchdog.Budget{WallClock: time.Second},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer wd.Close()
	result, err := stall.Run(wd.Context(), exec.Command("sleep", "600"), stall.Config{Step: "build"})
	fmt.Println(result.RunID, errors.Is(err, watchdog.WallClockExceeded), result.EndedBy)
	// Output: s-1/build true interrupt
}

// A probe says that a command makes no progress, however much the command prints. Package converge compares the probe's
// fingerprints with those of the next attempt.
func ExampleProbe() {
	_, err := stall.Run(context.Background(), exec.Command("sleep", "600"), stall.Config{
		Step: "wait", Store: &watchdog.Memory{},
		Probe: &stall.Probe{Command: []string{"echo", `{"class": "terminal", "fingerprints": ["k8s/crd/missing:widgets"]}`}},
	})
	var stalled *stall.Stalled
	if errors.As(err, &stalled) {
		fmt.Println(stalled.Trip.Kind, stalled.Trip.Fingerprints)
	}
	// Output: terminal [k8s/crd/missing:widgets]
}

// A line that matches a pattern of Terminal ends the command at once. This helps with a command that would retry
// forever.
func ExampleConfig_terminal() {
	deploy := exec.Command("sh", "-c", "echo 'fatal: access denied'; exec sleep 600")
	_, err := stall.Run(context.Background(), deploy, stall.Config{
		Step: "deploy", Store: &watchdog.Memory{},
		Terminal: []*regexp.Regexp{regexp.MustCompile(`^fatal: .*denied$`)},
	})
	fmt.Println(err)
	// Output: run step deploy: step deploy was ended: the output has a line of terminal pattern 1
}

// A completion check that stalls has an answer, and no error: the task is incomplete.
func ExampleConfig_asIncomplete() {
	result, err := stall.Run(context.Background(), exec.Command("sleep", "600"), stall.Config{
		Step: "check", Store: &watchdog.Memory{}, NoOutput: 200 * time.Millisecond, AsIncomplete: true,
	})
	fmt.Println(result.Incomplete, err)
	// Output: true <nil>
}

// ActionIgnore only records the trip. This is a way to find good limits before they end any command.
func ExampleTripAction() {
	result, err := stall.Run(context.Background(), exec.Command("sleep", "3"), stall.Config{
		Step: "build", Store: &watchdog.Memory{}, NoOutput: 100 * time.Millisecond, OnStall: stall.ActionIgnore,
	})
	fmt.Println(result.Trip.Kind, result.Trip.Action, result.Finished, err)
	// Output: no_output ignore true <nil>
}

// What docker run starts is a child of the Docker daemon, which no signal reaches. Its name says what to end. docker rm
// with --force succeeds if the client has ended the container already.
func ExampleConfig_alsoEnd() {
	release := exec.Command("docker", "run", "--rm", "--name", "release-17", "builder", "make", "release")
	result, err := stall.Run(context.Background(), release, stall.Config{
		Step: "release", Store: &watchdog.Memory{}, NoOutput: 5 * time.Minute,
		AlsoEnd: &stall.AlsoEnd{Command: []string{"docker", "rm", "--force", "release-17"}, Timeout: time.Minute},
	})
	if errors.Is(err, stall.ErrAlsoEnd) {
		fmt.Println("look for the container release-17:", result.AlsoEnded.Err)
	}
}
