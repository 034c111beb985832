package stall_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/story"
	"github.com/seed62658d38/watchdog/stall"
)

// unkillable is a host that may start a process of another user but may not signal it. It prints the events of the
// command's run.
func unkillable(string) error {
	const dropFromBounds, mayKill = 24, 5 // PR_CAPBSET_DROP, CAP_KILL
	if err := prctlOfThread(dropFromBounds, mayKill); err != nil {
		return err
	}
	store := &watchdog.Memory{}
	in, hold, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd := exec.Command("/bin/sh", "-c", "read secret_argument")
	cmd.Stdin, cmd.Dir = in, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	result, err := stall.Run(context.Background(), cmd, stall.Config{
		Step: "build", RunID: "s-1", Store: store, Logger: discard, NoOutput: 50 * time.Millisecond,
		Grace: graces(0, 0),
	})
	if !errors.Is(err, stall.ErrSurvivors) || len(result.Survivors) != 1 {
		return errors.Join(errors.New("not one process survived"), err)
	}
	var exit interface{ ExitCode() int }
	if errors.As(err, &exit) || cmd.ProcessState != nil {
		return errors.Join(errors.New("a command that lives has an exit status"), err)
	}
	events, err := store.Read(context.Background(), watchdog.AggregateType, "s-1/build")
	text, problem := json.Marshal(unkilled{result.Survivors[0], events})
	return cmp.Or(err, problem, hold.Close(), childSteps["print"](string(text)))
}

// An unkilled is what such a host prints.
type unkilled struct {
	PID    int
	Events []watchdog.Event
}

// TestUnkillable checks that a run's events say what could not be ended: once, after the cancel, and with no more of
// the process than its number.
func TestUnkillable(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can start a process of another user")
	}
	out, err := command(t, "unkillable").Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		require.NoError(t, err, "%s", exit.Stderr)
	}
	require.NoError(t, err)
	var got unkilled
	require.NoError(t, json.Unmarshal(out, &got), "%s", out)
	last := len(got.Events) - 1
	kinds := map[string]int{}
	for _, e := range got.Events {
		kinds[e.Type]++
	}
	require.Equal(t, 1, kinds[watchdog.EventOverrun])
	require.Equal(t, 1, kinds[watchdog.EventCancel])
	require.Equal(t, watchdog.EventOverrun, got.Events[last].Type)
	var p struct {
		Key, Layer string
		Abandoned  bool
		Survivors  int
		PIDs       []int `json:"survivor_pids"`
	}
	require.NoError(t, json.Unmarshal(got.Events[last].Payload, &p))
	assert.Equal(t, "build", p.Key)
	assert.Equal(t, "command", p.Layer)
	assert.True(t, p.Abandoned, "to a reader that does not know of commands it is a call that was abandoned")
	assert.Equal(t, 1, p.Survivors)
	assert.Equal(t, []int{got.PID}, p.PIDs)
	assert.NotContains(t, string(out), "secret_argument")

	told := story.Of(story.Record{RunID: "s-1/build", Events: got.Events}, time.Now())
	assert.Equal(t, story.Stopped, told.State)
	assert.Equal(t, fmt.Sprintf("a process of its command could not be ended (PID %d)", got.PID), told.LeftAlive())
	assert.Equal(t, "end what is left alive, then run the command again", told.Next.Advice)
}
