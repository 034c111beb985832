package agents_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

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
