package watchdog_test

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/loop"
)

func grep(n int) loop.Step {
	return loop.Step{Tool: "grep", Class: loop.Look, Input: fmt.Appendf(nil, `{"for":"word %d"}`, n), Outcome: []byte("none")}
}

// steps are so many that are the same.
func steps(wd *watchdog.Watchdog, n int, same loop.Step) {
	for range n {
		wd.Step(same)
	}
}

// asked has the run repeat itself until it is asked to stop that, and takes the directive.
func (b *fixture) asked(wd *watchdog.Watchdog) watchdog.Directive {
	b.t.Helper()
	steps(wd, 3, grep(1))
	b.pass(0)
	return poll(b.t, wd)
}

// TestStep protects that a run which repeats itself is asked to stop that, and ended if it goes on.
func TestStep(t *testing.T) {
	runFixture(t, "the third round asks, and two more after it was taken end", func(f *fixture) {
		wd := f.attach()
		wd.Step(grep(1))
		wd.Step(grep(1))
		require.Equal(f.t, loop.Ask, wd.Step(grep(1)).Advice)
		f.pass(0)
		steps(wd, 3, grep(1))
		f.live(wd) // the host has not been told yet
		d := poll(f.t, wd)
		require.Equal(f.t, watchdog.DirectiveUnstuck, d.Kind)
		require.Equal(f.t, watchdog.LoopDetected, d.Reason)
		_, ok := wd.Poll()
		require.False(f.t, ok, "it is asked once")
		wd.Step(grep(1))
		f.live(wd)
		wd.Step(grep(1))
		code, fired := wd.Fired()
		require.True(f.t, fired)
		require.Equal(f.t, watchdog.LoopDetected, code)
		require.Contains(f.t, wd.Stop().Error(), "the same")
		require.Len(f.t, f.events(watchdog.EventUnstuck), 1)
	})
	runFixture(t, "the first of several readers counts", func(f *fixture) {
		wd := f.attach()
		wd.Subscribe(func(watchdog.Directive) {})
		steps(wd, 3, grep(1))
		f.pass(0) // the subscriber was told
		wd.Step(grep(1))
		poll(f.t, wd)
		wd.Step(grep(1))
		require.True(f.t, hasFired(wd))
	})
	runFixture(t, "new steps are progress, old ones activity", func(f *fixture) {
		f.cfg.Budget.NoProgress = time.Minute
		wd := f.attach()
		for n := range 10 {
			f.pass(50 * time.Second)
			wd.Step(loop.Step{Tool: "read", Class: loop.Look, Input: fmt.Append(nil, n), Outcome: fmt.Append(nil, n)})
		}
		f.live(wd)
		f.pass(50 * time.Second)
		wd.Step(loop.Step{Tool: "read", Class: loop.Look, Input: []byte("1"), Outcome: []byte("1")})
		f.pass(11 * time.Second)
		require.Equal(f.t, watchdog.NoProgressExceeded, wd.Stop().Code)
	})
	runFixture(t, "the directive says what was repeated, and nothing of what was asked and answered", func(f *fixture) {
		wd := f.attach()
		var told error
		err := wd.Try(context.Background(), func(ctx context.Context) error {
			steps(wd, 3, grep(1))
			<-ctx.Done()
			told = context.Cause(ctx)
			return told
		})
		require.ErrorIs(f.t, err, told)
		polled := poll(f.t, wd)
		require.Contains(f.t, polled.Loop, `"grep" was called with the same input and got the same result 3 times`)
		require.NotContains(f.t, polled.Loop, "word")
		var tried *watchdog.Directive
		require.ErrorAs(f.t, told, &tried)
		require.Equal(f.t, polled.Loop, tried.Loop)
		require.NotContains(f.t, string(f.events(watchdog.EventUnstuck)[0].Payload), "same result", "it is not recorded")
	})
	runFixture(t, "where it is off, nothing is asked or ended, and new steps are progress", func(f *fixture) {
		f.cfg.Loop.Mode, f.cfg.Budget.NoProgress = loop.Off, time.Minute
		wd := f.attach()
		steps(wd, 100, grep(1))
		f.live(wd)
		f.pass(50 * time.Second)
		wd.Step(grep(2))
		f.pass(50 * time.Second)
		f.live(wd)
	})
	runFixture(t, "a loop that goes on in a run that is only observed is recorded once a minute", func(f *fixture) {
		f.cfg.ObserveOnly = true
		wd := f.attach()
		for range 300 {
			wd.Step(grep(1))
			wd.Poll()
			f.pass(time.Second)
		}
		require.Len(f.t, f.events(watchdog.EventUnstuck), 1)
	})
}

// TestStepOfPerson protects a run in which a person asks for the same again.
func TestStepOfPerson(t *testing.T) {
	person := loop.Step{Class: loop.Person}
	runFixture(t, "it begins anew", func(f *fixture) {
		wd := f.attach()
		for range 20 {
			wd.Step(grep(1))
			wd.Step(grep(1))
			require.True(f.t, wd.Step(person).New)
		}
		f.live(wd)
		_, asked := wd.Poll()
		require.False(f.t, asked)
	})
	runFixture(t, "what was asked before, and not taken, is not in the way of what is asked later", func(f *fixture) {
		f.cfg.Loop.Classes = map[string]loop.Class{"ask": loop.Person}
		wd := f.attach()
		f.cfg.Loop.Classes["ask"] = loop.Wait // the config was copied
		steps(wd, 3, grep(1))
		wd.Step(loop.Step{Tool: "ask", Outcome: []byte("go on")})
		steps(wd, 3, grep(2))
		f.pass(0)
		require.Len(f.t, f.events(watchdog.EventUnstuck), 2)
	})
	runFixture(t, "it is progress, also as the first step, which nothing is recorded of", func(f *fixture) {
		f.cfg.Budget.NoProgress = time.Minute
		wd := f.attach()
		for range 10 {
			f.pass(50 * time.Second)
			wd.Step(person)
		}
		f.live(wd)
		require.NoError(f.t, wd.Close())
	})
}

// TestWaitsEnd protects a host that wants a run ended which only waits.
func TestWaitsEnd(t *testing.T) {
	nap := loop.Step{Tool: "bash", Input: []byte(`{"command":"sleep 1"}`)}
	for name, c := range map[string]struct {
		ladder    []watchdog.DirectiveKind
		asked, at int // the steps after which it was asked and ended
	}{
		"asked first, and ended if it goes on": {nil, 10, 18},
		"ended at once":                        {[]watchdog.DirectiveKind{watchdog.DirectiveCancel}, 10, 10},
	} {
		runFixture(t, name, func(f *fixture) {
			f.cfg.Loop.Waits, f.cfg.Budget.Ladders.Loop = loop.End, c.ladder
			wd := f.attach()
			steps(wd, c.asked-1, nap)
			f.live(wd)
			require.Empty(f.t, f.events(watchdog.EventUnstuck))
			for range c.at - c.asked {
				wd.Step(nap)
				f.live(wd)
			}
			wd.Step(nap)
			require.ErrorIs(f.t, wd.Stop(), watchdog.LoopDetected)
			require.Len(f.t, f.events(watchdog.EventUnstuck), min(1, c.at-c.asked))
		})
	}
	runFixture(t, "never, as ever, where it does not say so", func(f *fixture) {
		wd := f.attach()
		steps(wd, 200, nap)
		f.live(wd)
	})
}

// TestLoopConfigIsRead protects that no field of Loop is passed over.
func TestLoopConfigIsRead(t *testing.T) {
	require.False(t, (&watchdog.Config{}).HasLoop())
	all := reflect.TypeFor[loop.Config]()
	for i := range all.NumField() {
		var cfg watchdog.Config
		field := reflect.ValueOf(&cfg.Loop).Elem().Field(i)
		switch field.Kind() {
		case reflect.Slice:
			field.Set(reflect.MakeSlice(field.Type(), 0, 0))
		case reflect.Map:
			field.Set(reflect.MakeMap(field.Type()))
		case reflect.Func:
			cfg.Loop.Normalize = func(_ string, outcome []byte) []byte { return outcome }
		case reflect.String:
			field.SetString("x")
		default:
			require.Fail(t, "a field of another kind", all.Field(i).Name)
		}
		require.True(t, cfg.HasLoop(), all.Field(i).Name)
	}
}

// TestStepOfOddHosts protects a run from what a host hands over, and from when it does.
func TestStepOfOddHosts(t *testing.T) {
	runFixture(t, "a Normalize that panics is the host's, and the run goes on", func(f *fixture) {
		panics := false
		f.cfg.Loop.Normalize = func(_ string, outcome []byte) []byte {
			if panics {
				panic("a bug of the host")
			}
			return outcome
		}
		wd := f.attach()
		wd.Step(grep(1))
		panics = true
		for range 9 {
			require.Panics(f.t, func() { wd.Step(grep(1)) })
		}
		panics = false
		require.Equal(f.t, loop.Go, wd.Step(grep(1)).Advice)
		require.Equal(f.t, loop.Ask, wd.Step(grep(1)).Advice)
		f.pass(0)
		poll(f.t, wd)
		require.NoError(f.t, wd.Close())
	})
	runFixture(t, "a person between calls takes back what was found before", func(f *fixture) {
		wd := f.attach()
		f.asked(wd)
		for range 9 {
			v := wd.Step(grep(1), loop.Step{Class: loop.Person}, grep(1))
			require.Equal(f.t, loop.Verdict{Advice: loop.Go, New: true}, v)
		}
		f.live(wd)
	})
	runFixture(t, "the reason has one line, and the name of a tool is all that a model made up in it", func(f *fixture) {
		wd := f.attach()
		for range 3 {
			wd.Step(loop.Step{
				Tool: "x\"\n\xff\u2028" + strings.Repeat("y", 1<<20), Class: loop.Look, Input: []byte("CANARY"), Outcome: []byte("CANARY"),
			})
		}
		f.pass(0)
		d := poll(f.t, wd)
		require.NotContains(f.t, d.Loop, "CANARY")
		require.False(f.t, strings.ContainsAny(d.Loop, "\n\u2028"), "%q", d.Loop)
		require.Less(f.t, len(d.Loop), 500)
	})
	runFixture(t, "steps after the end and after Close find nothing new, and do no harm", func(f *fixture) {
		wd := f.attach()
		steps(wd, 3, grep(1))
		f.pass(0)
		wd.Poll()
		steps(wd, 9, grep(1))
		require.ErrorIs(f.t, wd.Stop(), watchdog.LoopDetected)
		ends := len(f.events(watchdog.EventCancel))
		f.pass(time.Second)
		require.NoError(f.t, wd.Close())
		steps(wd, 99, grep(2))
		f.pass(time.Minute)
		require.Len(f.t, f.events(watchdog.EventCancel), ends)
	})
}
