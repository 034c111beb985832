package agents_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/handle"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/stall"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

const (
	runID     = "job-1"
	wallClock = time.Hour
	toolCalls = 12 // that the run may make in all of its lives
	maxOutput = 500
	said      = 1100 // tokens that each answer of the model says it used
)

// sdks play an agent of each SDK: the turns are what its model answers, one after the other. They return what the model
// was told, as text.
var sdks = map[string]func(ctx context.Context, job *job, turns []turn) (told []string, err error){
	"adk": playADK, "eino": playEino, "mcp": playMCP,
}

// A turn is one answer of the model: the call of a tool, with a number as its input, or a part of an answer that never
// goes on.
type turn struct {
	tool   string
	input  int
	stalls bool
}

// A job is the work of one process at the run.
type job struct {
	wd    *watchdog.Watchdog
	store *sqlite.Store
	made  int // calls of tools
}

// What a process says of its work in the end.
type report struct {
	Attempt watchdog.Attempt
	Left    time.Duration // of the wall clock, at its begin
	Used    int64         // calls of tools that were charged by then
	Tokens  int64
	Taken   string // why the hold of the process before could not be taken over
	Told    []string
	Made    int
	Err     string
	Stop    string
}

// agentMain is a process that works at the run: for an SDK, in a scene, in a folder, for a run that began then.
func agentMain(ctx context.Context, args []string) (err error) {
	sdk, scene, folder := args[0], args[1], args[2]
	began, err := time.Parse(time.RFC3339Nano, args[3])
	if err != nil {
		return err
	}
	store, err := sqlite.Open(ctx, filepath.Join(folder, "runs.db"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	quiet := slog.New(slog.DiscardHandler)
	keeper, err := session.NewKeeper(session.KeeperConfig{
		Store: store, Logger: quiet, Threshold: 5 * time.Second, Pace: 50 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	defer keep(ctx, keeper)()
	attach := watchdog.New
	if scene == "resumes" {
		attach = watchdog.Resume
	}
	wd, err := attach(ctx, watchdog.Run{ID: runID, StartedAt: began}, watchdog.Config{
		Store: store, Keeper: keeper, Logger: quiet, Budget: budget(scene),
	})
	if err != nil {
		return err
	}
	err = play(sdk, scene, &job{wd: wd, store: store})
	return errors.Join(err, wd.Close())
}

// keep runs the keeper until the function that it returns is called.
func keep(ctx context.Context, keeper *session.Keeper) (end func()) {
	ctx, stop := context.WithCancel(ctx)
	var kept sync.WaitGroup
	kept.Go(func() { _ = keeper.Run(ctx) })
	return func() {
		stop()
		kept.Wait()
	}
}

func budget(scene string) watchdog.Budget {
	b := watchdog.Budget{
		WallClock: wallClock, Idle: 2 * time.Minute,
		Spend: watchdog.Spend{ToolCalls: toolCalls, Tokens: 1 << 20},
	}
	if !strings.HasPrefix(scene, "stop") { // the model is told of what does not fit, and goes on
		b.Ladders.ToolCalls = []watchdog.DirectiveKind{watchdog.DirectiveWait}
	}
	return b
}

// scenes are what the model asks for. The first process of a test is killed in its scene.
var scenes = map[string][]turn{
	"tool":     {{tool: "look"}, {tool: "look"}, {tool: "hang"}},
	"stream":   {{tool: "look"}, {tool: "look"}, {stalls: true}},
	"approval": {{tool: "look"}, {tool: "look"}, {tool: "approve"}},
	"again":    append([]turn{{tool: "look"}}, works(toolCalls)...),
	"stop":     append(works(toolCalls+2), turn{tool: "hang"}),
	"stopped":  works(2),
	"resumes":  works(2),
}

func works(calls int) (turns []turn) {
	for i := range calls {
		turns = append(turns, turn{tool: "work", input: i})
	}
	return turns
}

func play(sdk, scene string, j *job) error {
	r := report{Attempt: j.wd.Attempt(), Left: j.wd.Remaining()}
	for _, u := range j.wd.Usage() {
		switch u.Code() {
		case watchdog.ToolCallsExceeded:
			r.Used = u.Used + u.Admitted
		case watchdog.TokensExceeded:
			r.Tokens = u.Used + u.Admitted
		}
	}
	if scene == "again" {
		hold, err := j.wd.Hold(context.Background(), "approval", approval)
		if err != nil {
			r.Taken = err.Error()
		}
		hold.Close()
	}
	told, err := sdks[sdk](j.wd.Context(), j, scenes[scene])
	r.Told, r.Made = told, j.made
	if err != nil {
		r.Err = err.Error()
	}
	if stop := j.wd.Stop(); stop != nil {
		r.Stop = string(stop.Code)
	}
	if scene == "stop" {
		return j.die() // as soon as the run was stopped, before anybody has closed it
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

var approval = watchdog.HoldLimit{Cap: time.Hour, PausesWallClock: true}

// use calls a tool.
func (j *job) use(ctx context.Context, tool string, input int) (string, error) {
	j.made++
	switch tool {
	case "look":
		return "nothing", nil
	case "hang":
		if err := j.hang(ctx); err != nil {
			return "", err
		}
	case "approve":
		if _, err := j.wd.Hold(ctx, "approval", approval); err != nil {
			return "", err
		}
		return "", j.die()
	}
	return fmt.Sprintf("worked at %d", input), nil
}

// hang runs a command that never ends, and has this process killed meanwhile.
func (j *job) hang(ctx context.Context) error {
	c, err := stall.NewCommand(self("build"), stall.Config{Step: "build"})
	if err != nil {
		return err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.Start(ctx); err != nil {
		return err
	}
	if _, err := out.Read(make([]byte, 1)); err != nil { // its daemon has started
		return err
	}
	return j.die()
}

// die waits until all that the run remembers is stored, tells the test, and waits for its end. What the store has when a
// process is killed at some other point is the matter of the stores' own tests.
func (j *job) die() error {
	for !j.stored() {
		time.Sleep(10 * time.Millisecond)
	}
	fmt.Println("ready")
	return stay()
}

func (j *job) stored() bool {
	if !handle.Of(j.wd.Context()).Recorded(true) {
		return false
	}
	if j.wd.Stop() != nil {
		return true
	}
	row, err := j.store.Session(context.Background(), runID)
	if err != nil {
		return false
	}
	var state session.State
	if err := json.Unmarshal(row.State, &state); err != nil {
		return false
	}
	return bytes.Equal(state.Loop, handle.Of(j.wd.Context()).State().Loop)
}

// patience is how long anything may take on a busy machine.
const patience = 2 * time.Minute

// tokenVariable is in the environment of every process that a test starts.
const tokenVariable = "ADAPTERTEST_TOKEN"

// A life is a run that processes of one test work at.
type life struct {
	t      *testing.T
	sdk    string
	folder string
	token  string
	began  time.Time
}

// newLife is a run that began ten minutes ago. The test fails if a process of it is alive at the end.
func newLife(t *testing.T, sdk string) *life {
	t.Helper()
	l := &life{t, sdk, t.TempDir(), strconv.FormatUint(rand.Uint64(), 36), time.Now().Add(-10 * time.Minute)}
	t.Cleanup(func() {
		for _, pid := range l.processes() {
			args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			require.Fail(t, "a process is left", "%d: %s", pid, bytes.ReplaceAll(args, []byte{0}, []byte{' '}))
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return l
}

// processes are the living ones that have the token in their environment. A zombie has none.
func (l *life) processes() (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range all {
		if text, _ := os.ReadFile(name); bytes.Contains(text, []byte(l.token)) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			pids = append(pids, pid)
		}
	}
	return pids
}

func (l *life) command(scene string) *exec.Cmd {
	cmd := self("agent", l.sdk, scene, l.folder, l.began.Format(time.RFC3339Nano))
	cmd.Env = append(os.Environ(), tokenVariable+"="+l.token)
	cmd.Stderr = os.Stderr
	return cmd
}

// killed plays a scene in a process, and kills it at its end. It returns once no process of it is left.
func (l *life) killed(scene string, processes int) {
	l.t.Helper()
	cmd := l.command(scene)
	out, err := cmd.StdoutPipe()
	require.NoError(l.t, err)
	require.NoError(l.t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(l.t, err)
	require.Equal(l.t, "ready\n", line)
	require.GreaterOrEqual(l.t, len(l.processes()), processes)
	require.NoError(l.t, cmd.Process.Kill())
	require.Error(l.t, cmd.Wait())
	for began := time.Now(); len(l.processes()) > 0 && time.Since(began) < patience; {
		time.Sleep(10 * time.Millisecond)
	}
	require.Empty(l.t, l.processes())
}

// played plays a scene in a process to its end.
func (l *life) played(scene string) (r report) {
	l.t.Helper()
	out, err := l.command(scene).Output()
	require.NoError(l.t, err, "%s", out)
	require.NoError(l.t, json.Unmarshal(out, &r), "%s", out)
	require.Empty(l.t, l.processes())
	return r
}

// TestKilled checks that an agent whose process was killed in the middle of what it did goes on in another one: in the
// run's window, with what was spent, with what the detector of loops knows, and without any process of the first.
func TestKilled(t *testing.T) {
	for sdk := range sdks {
		for _, c := range []struct {
			scene     string
			charged   int64 // calls of tools
			tokens    int64 // at least
			processes int
		}{
			{scene: "tool", charged: 3, tokens: 3 * said, processes: 3},
			{scene: "stream", charged: 2, tokens: 2*said + 1024 + maxOutput, processes: 1},
			{scene: "approval", charged: 3, tokens: 3 * said, processes: 1},
		} {
			switch { // a host of MCP has no model, and its approval is no call of a tool
			case sdk == "mcp" && c.scene == "stream":
				c.charged, c.tokens, c.processes = 3, 0, 2
			case sdk == "mcp" && c.scene == "approval":
				c.charged, c.tokens, c.processes = 2, 0, 2
			case sdk == "mcp":
				c.tokens = 0
			}
			t.Run(sdk+" in "+c.scene, func(t *testing.T) {
				t.Parallel()
				l := newLife(t, sdk)
				l.killed(c.scene, c.processes)
				const away = time.Second
				time.Sleep(away)
				r := l.played("again")

				require.Equal(t, watchdog.Attempt{Number: 2, Lost: true}, r.Attempt)
				worked, paused := wallClock-r.Left, time.Duration(0)
				if c.scene == "approval" {
					paused = away
				}
				require.Greater(t, worked, 10*time.Minute, "the window goes on")
				require.Less(t, worked, time.Since(l.began)-paused, "an approval that is open stops it, also while nobody is there")
				require.Empty(t, r.Taken, "the hold is taken over")
				require.Equal(t, c.charged, r.Used, "what the first began counts")
				require.GreaterOrEqual(t, r.Tokens, c.tokens)

				require.Equal(t, toolCalls-int(c.charged), r.Made, "and the limit holds for both")
				all := strings.Join(r.Told, "\n")
				require.Contains(t, r.Told[min(1, len(r.Told)-1)]+r.Told[0], "You repeat yourself", "the third round of both")
				require.Contains(t, all, "was not made")
				require.Empty(t, r.Stop)
				require.Empty(t, r.Err)
			})
		}
	}
}

// TestKilledStopped checks that a run that was stopped in a process which was killed then stays stopped: no call is made,
// until it is resumed by name.
func TestKilledStopped(t *testing.T) {
	for sdk := range sdks {
		t.Run(sdk, func(t *testing.T) {
			t.Parallel()
			l := newLife(t, sdk)
			l.killed("stop", 1)
			r := l.played("stopped")
			require.Equal(t, string(watchdog.ToolCallsExceeded), r.Stop)
			require.NotEmpty(t, r.Err)
			require.Zero(t, r.Made)
			r = l.played("resumes")
			require.Zero(t, r.Used)
			require.Equal(t, 2, r.Made)
			require.Empty(t, r.Err)
			require.Empty(t, r.Stop)
		})
	}
}
