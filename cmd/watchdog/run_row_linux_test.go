package main_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/escape"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/internal/story"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/postgres/pgtest"
)

// stored returns run with this store, and more flags.
func (f *fixture) stored(s testStore, flags string, command ...string) *exec.Cmd {
	f.Helper()
	cmd := f.cmd(flags, command...)
	cmd.Env = append(cmd.Env, "WATCHDOG_STORE="+s.url, "WATCHDOG_KEEPER_PROMISE_MS=1000", "WATCHDOG_KEEPER_POLL_MS=100",
		"WATCHDOG_KEEPER_HOST=worker-1", "WATCHDOG_KEEPER_PACE_MS=100")
	return cmd
}

// end returns how the run ended: the status and the reason of its row, and what its events have, of which one must say
// so.
func (s testStore) end(t *testing.T, id string) []string {
	t.Helper()
	events, err := s.Read(t.Context(), event.AggregateType, id)
	require.NoError(t, err)
	ends, stored := 0, ""
	for _, e := range events {
		switch e.Type {
		case event.Cancel, event.Complete:
			_, code := session.StoredEnd(e)
			ends, stored = ends+1, string(code)
		case event.Interrupt:
			ends, stored = ends+1, "interrupt"
		}
	}
	require.Equal(t, 1, ends, "ends of run %s", id)
	row := s.row(t, id)
	return []string{string(row.Status), string(row.Reason), stored}
}

// swept has one pass of a sweeper for which every silence is too long.
func (s testStore) swept(t *testing.T) outcome {
	t.Helper()
	settings := file(t, "watchdog.yaml", "sweep:\n  stalled_threshold: 1ms\n  min_age: 0\n")
	return s.program(t, "sweep", "--once", "--config", settings).must(t, 0)
}

func TestRunRow(t *testing.T) {
	t.Parallel()
	bothStores(t, func(t *testing.T, s testStore) {
		withFixture(t, "shows the run while it lives, with its limits, and how it ended", func(t *testing.T, f *fixture) {
			p := start(t, f.stored(s, "--id job --no-output 5m --wall-clock 1h", f.child("say:ready", "await:"+f.path("go"))...))
			o := s.program(t, "sessions", "--live").must(t, 0)
			assert.Regexp(t, `(?m)^job +active +worker-1 +\d+s +\d+s *$`, o.stdout)
			var state session.State
			require.NoError(t, json.Unmarshal(s.row(t, "job").State, &state))
			assert.Equal(t, session.State{WallClock: 3600, Idle: 300, WarnAt: []float64{}}, state)
			page := s.page(t, "")
			for _, part := range []string{"job", "wall clock", "idle"} {
				assert.Contains(t, page, part)
			}
			o = s.program(t, "why", "job")
			assert.Contains(t, o.stdout, "run      job on worker-1\nstate    running")
			require.NoError(t, stepFuncs["touch"](f.path("go")))
			assert.Equal(t, outcome{}, p.end())
			assert.Equal(t, []string{"finished", "complete", "complete"}, s.end(t, "job"))
			assert.Empty(t, s.leases(t), "a lease is left")
		})
		t.Run("says that it is ending, with what was sent and what follows, until it has ended", func(t *testing.T) {
			f := newFixture(t)
			const flags = "--id stubborn --no-output 1s --grace-int 400ms --grace-term 1h"
			p := start(t, f.stored(s, flags, f.child("ignore:INT", "ignore:TERM", "say:ready", "await:"+f.path("go"))...))
			eventually(t, "SIGTERM is sent", func() bool {
				return strings.Contains(string(s.row(t, "stubborn").State), `"SIGTERM","sent_at"`)
			})
			const sent = ` +SIGTERM sent at [\d:]{8}, SIGKILL due at [\d:]{8} UTC$`
			assert.Regexp(t, `(?m)^state +ending:`+sent, s.program(t, "why", "stubborn").stdout)
			assert.Regexp(t, `(?m)^stubborn +ending .*`+sent, s.program(t, "sessions", "--live").stdout)
			assert.Contains(t, s.page(t, "?state=ending"),
				`ending</span><span class="sub">SIGTERM sent, SIGKILL next</span>`)
			require.NoError(t, stepFuncs["touch"](f.path("go")))
			p.end().must(t, 124)
			assert.NotContains(t, string(s.row(t, "stubborn").State), "ending")
		})
		withFixture(t, "has the sign of life of a command that may not be silent for ever", func(t *testing.T, f *fixture) {
			cmd := f.stored(s, "--id loud --no-output 5m", f.child("say:ready", "await:"+f.path("go"), "say:more",
				"await:"+f.path("end"))...)
			cmd.Env = append(cmd.Env, "WATCHDOG_STALLED_THRESHOLD_MS=1000") // its row is at most a tenth of it behind
			p := start(t, cmd)
			before := s.row(t, "loud")
			assert.Equal(t, 5*time.Minute+30*time.Second+time.Minute, before.Threshold)
			time.Sleep(200 * time.Millisecond)
			require.NoError(t, stepFuncs["touch"](f.path("go")))
			eventually(t, "the row has the later sign", func() bool {
				return s.row(t, "loud").Activity > before.Activity+100*time.Millisecond
			})
			require.NoError(t, stepFuncs["touch"](f.path("end")))
			p.end().must(t, 0)
		})
		withFixture(t, "leaves the output of a command that may be silent on its terminal", func(t *testing.T, f *fixture) {
			screen := onScreen(t, f.stored(s, "--id screen --wall-clock 1h", "sh", "-c", "test -t 1 && test -t 2 && exit 4"))
			screen.end(4)
		})
		t.Run("has when the run began and ended, and not its last sign of life for its end", func(t *testing.T) {
			f := newFixture(t)
			finish(t, f.stored(s, "--id timed", "sleep", "1.2")).must(t, 0)
			o := s.program(t, "sessions", "--json", "--reason", "complete")
			var list struct {
				Sessions []struct {
					RunID     string    `json:"run_id"`
					StartedAt time.Time `json:"started_at"`
					EndedAt   time.Time `json:"ended_at"`
					Lasted    float64   `json:"lasted_seconds"`
				}
			}
			require.NoError(t, json.Unmarshal([]byte(o.stdout), &list))
			for _, one := range list.Sessions {
				if one.RunID == "timed" {
					assert.GreaterOrEqual(t, one.Lasted, 1.2)
					assert.InDelta(t, one.EndedAt.Sub(one.StartedAt).Seconds(), one.Lasted, 1e-3)
				}
			}
			assert.Regexp(t, `(?m)^RUN .* AGE +LASTED +SIGN `, s.program(t, "sessions").stdout)
			assert.Regexp(t, `(?m)^timed +finished .* \d+s +[1-9]\d*s +\d+s +complete$`, s.program(t, "sessions").stdout)
			assert.Regexp(t, `(?s)data-run="timed".*<span>lasted [1-9]\d*s</span>.*</tr>`, s.page(t, ""))
		})
	})
}

func (s testStore) leases(t *testing.T) []session.Lease {
	t.Helper()
	all, err := s.ObserveLeases(t.Context(), nil)
	require.NoError(t, err)
	return all
}

// TestRunRowEnds compares the row with the events and the exit status, for each way to end.
func TestRunRowEnds(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, s testStore) {
		for id, c := range map[string]struct {
			flags       string
			steps       []string
			status      int
			row, reason string
		}{
			"failed":  {"", []string{"exit:7"}, 7, "finished", "complete"},
			"silent":  {"--no-output 1s", []string{"stay"}, 124, "cancelled", "watchdog_no_output"},
			"matched": {"--terminal ^ready$", []string{"say:ready", "stay"}, 124, "cancelled", "watchdog_terminal"},
			"late":    {"--wall-clock 300ms", []string{"stay"}, 124, "cancelled", "watchdog_wall_clock_exceeded"},
			"late and watched": {
				"--wall-clock 1s --no-output 5m", []string{"stay"}, 124, "cancelled", "watchdog_wall_clock_exceeded",
			},
			"unchanged": {
				"--no-output 1m --probe-interval 50ms --probe ./probe.sh", []string{"stay"}, 124, "cancelled", "watchdog_no_progress",
			},
		} {
			withFixture(t, "of a command that was "+id, func(t *testing.T, f *fixture) {
				name := strings.ReplaceAll(id, " ", "-")
				probe := []byte("#!/bin/sh\necho '{}'\n")
				require.NoError(t, os.WriteFile(f.path("probe.sh"), probe, 0o700)) //nolint:gosec // it must be executable
				o := finish(t, f.stored(s, c.flags+" --id "+name, f.child(c.steps...)...)).must(t, c.status)
				assert.Equal(t, []string{c.row, c.reason, c.reason}, s.end(t, name))
				assert.Equal(t, c.status == 124, strings.HasSuffix(o.stderr, "; see: watchdog why "+name+"\n"), o.stderr)
				assert.LessOrEqual(t, strings.Count(o.stderr, "\n"), 1, o.stderr)
			})
		}
		withFixture(t, "of a command whose time is used up before it starts", func(t *testing.T, f *fixture) {
			finish(t, f.stored(s, "--id none-left --wall-clock 1ns", f.child("touch:"+f.path("started"))...)).must(t, 124)
			assert.False(t, f.exists("started"))
			const code = "watchdog_wall_clock_exceeded"
			assert.Equal(t, []string{"cancelled", code, code}, s.end(t, "none-left"))
		})
		withFixture(t, "of a command that does not start, which leaves no lease", func(t *testing.T, f *fixture) {
			before := s.leases(t) // on a busy machine an earlier program may have left one to a sweeper
			finish(t, f.stored(s, "--id none", "no-such-command")).must(t, 127)
			assert.Equal(t, session.Finished, s.row(t, "none").Status)
			assert.Empty(t, s.kinds(t, "none"))
			for _, left := range s.leases(t) {
				assert.True(t, slices.ContainsFunc(before, func(l session.Lease) bool { return l.ID == left.ID }), "%+v", left)
			}
		})
		withFixture(t, "of guards that are switched off are nowhere", func(t *testing.T, f *fixture) {
			cmd := f.stored(s, "--id off", f.child("exit:3")...)
			cmd.Env = append(cmd.Env, "WATCHDOG_DISABLED=true")
			finish(t, cmd).must(t, 3)
			_, err := s.Session(t.Context(), "off")
			require.ErrorIs(t, err, session.ErrNotFound)
		})
	})
}

func TestRunKilled(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, s testStore) {
		kill := func(t *testing.T, id string) *fixture {
			t.Helper()
			f := newFixture(t)
			cmd := f.stored(s, "--id "+id, f.child("say:ready", "stay")...)
			cmd.Env = append(cmd.Env, "WATCHDOG_KEEPER_PROMISE_MS=2000") // a look may take as long on a busy machine
			p := start(t, cmd)
			p.signal(syscall.SIGKILL)
			_ = p.cmd.Wait() // it was killed
			eventually(t, "the command ends", func() bool { return len(escape.WithToken(f.token)) == 0 })
			assert.Equal(t, session.Active, s.row(t, id).Status)
			return f
		}
		t.Run("is found dead by a sweeper, which cancels it, and why tells that", func(t *testing.T) {
			kill(t, "swept")
			assert.Contains(t, s.swept(t).stdout, "1 cancelled")
			assert.Equal(t, []string{"cancelled", "watchdog_host_lost", "watchdog_host_lost"}, s.end(t, "swept"))
			o := s.program(t, "why", "swept")
			assert.Contains(t, o.stdout, "run      swept on worker-1\nstate    stopped ")
			said := strings.Join(strings.Fields(o.stdout), " ")
			assert.Regexp(t, `why its process was found dead or cut off, and nothing new for .* of 1 ms watchdog_host_lost`, said)
			assert.Regexp(t, `watchdog_host_lost, lease "\S+" not renewed since \S+Z in [4-9] looks, by system-watchdog`, said)
			assert.Contains(t, s.listed(t, "--reason", "watchdog_host_lost"), "swept")
			assert.Equal(t, "watchdog resume --store "+story.ShellQuote(s.url)+" swept", nextLine(t, o))
		})
		t.Run("goes on under its name when it is certain that its process is dead", func(t *testing.T) {
			f := kill(t, "again")
			var o outcome
			for range 3 { // a busy machine may look too slowly to be certain: then the run counts as live
				if o = finish(t, f.stored(s, "--id again", f.child("exit:5")...)); o.status != 125 {
					break
				}
			}
			o.must(t, 5)
			assert.Equal(t, "watchdog: run again may be live on host worker-1: finding out takes at most 10s\n", o.stderr)
			row := s.row(t, "again")
			assert.Equal(t, 2, row.Attempt)
			assert.Equal(t, session.Finished, row.Status)
			assert.Equal(t, []string{event.Interrupt, event.Complete}, s.kinds(t, "again"))
		})
	})
}

func TestRunElsewhere(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, s testStore) {
		withFixture(t, "that is live on another host starts no command", func(t *testing.T, f *fixture) {
			h := s.host(t, "worker-7")
			wd := h.run(t, watchdog.New, "job", watchdog.NoLimit)
			o := finish(t, f.stored(s, "--id job", f.child("touch:"+f.path("started"))...)).must(t, 125)
			assert.Contains(t, o.stderr, `watchdog: run "job" is live: host "worker-7" has it (attempt 1); use another --id`)
			assert.False(t, f.exists("started"))
			assert.NoError(t, wd.Context().Err(), "the live run was ended")
			o = finish(t, f.stored(s, "--id job --json", f.child("touch:"+f.path("started"))...)).must(t, 125)
			assert.Equal(t, 1, strings.Count(o.stderr, "\n"), o.stderr)
		})
		for _, flags := range []string{"", " --no-output 5m"} {
			t.Run("ends with the run, with the flags"+flags, func(t *testing.T) {
				for id, c := range map[string]struct {
					end    func(t *testing.T, id string)
					says   string
					row    string
					reason string
				}{
					"completed": {func(t *testing.T, id string) {
						t.Helper()
						o := s.program(t, "complete", id)
						assert.Equal(t, "run "+id+" is recorded as complete; it ends on host worker-1, which runs it\n", o.stdout)
					}, "was recorded as complete by another process", "finished", "complete"},
					"cancelled": {
						func(t *testing.T, id string) {
							t.Helper()
							row := s.row(t, id)
							e := cancelOf(id, row.StartedAt)
							e.Payload = bytes.ReplaceAll(e.Payload, []byte(`"wall_clock"`), []byte(`"idle_exceeded"`))
							s.cancel(t, row, session.CancelRequest{
								By: "pass", Reason: watchdog.IdleExceeded, Events: []watchdog.Event{e},
							})
						},
						"was stopped by another process, with watchdog_idle_exceeded", "cancelled", "watchdog_idle_exceeded",
					},
				} {
					f := newFixture(t)
					id += strings.Trim(flags, "- 5m")
					p := start(t, f.stored(s, "--id "+id+flags, f.child("say:ready", "stay")...))
					c.end(t, id)
					o := p.end().must(t, 124)
					assert.Regexp(t, "^watchdog: run "+id+" .*"+c.says+".*: ended by SIGINT; see: watchdog why "+id+"\n$", o.stderr)
					assert.Equal(t, []string{c.row, c.reason, c.reason}, s.end(t, id))
				}
			})
		}
		withFixture(t, "ends when another process takes the run over", func(t *testing.T, f *fixture) {
			p := start(t, f.stored(s, "--id taken --json", f.child("say:ready", "stay")...))
			h := s.host(t, "worker-7")
			wd := h.run(t, watchdog.New, "taken", watchdog.NoLimit)
			o := p.end().must(t, 124)
			assert.Contains(t, o.stderr, `"stopped":true,"reason":"run taken was taken over: attempt 1 was followed by attempt 2 on `+
				`host \"worker-7\""`)
			assert.Equal(t, 1, strings.Count(o.stderr, "\n"), o.stderr)
			assert.NoError(t, wd.Context().Err())
			assert.Equal(t, session.Active, s.row(t, "taken").Status)
		})
	})
}

// awayEnd is what is said of an end that the store does not take. Only a command that succeeded is completed by hand.
func awayEnd(hint string) string {
	return `^watchdog: waiting for the store to take how run job ended: .*\n` +
		`watchdog: record the end: .*` + hint + `; ` +
		`the run's row among the sessions could not be written.*: the end of 1 run is not written after 4s: .*\n$`
}

func TestRunStoreAway(t *testing.T) {
	t.Parallel()
	parallel(t, "harms no command, and the end says what is missing, in SQLite", func(t *testing.T) {
		s := sqliteStore(t)
		f := newFixture(t)
		p := start(t, f.stored(s, "--id job --record-timeout 2s", f.child("say:ready", "await:"+f.path("go"), "exit:5")...))
		s.exec("BEGIN EXCLUSIVE")
		require.NoError(t, stepFuncs["touch"](f.path("go")))
		o := p.end().must(t, 5)
		s.exec("ROLLBACK")
		assert.Regexp(t, awayEnd(""), o.stderr)
		assert.NotContains(t, o.stderr, "watchdog complete job")
		assert.Equal(t, session.Active, s.row(t, "job").Status)
	})
	t.Run("harms no command, and the end says what is missing, in PostgreSQL", func(t *testing.T) {
		if !racing.Long {
			t.Skip("make long: it stops a server of its own")
		}
		t.Parallel()
		f, server := newFixture(t), pgtest.Start(t, pgtest.Options{})
		s := openStore(t, server.DSN(server.Database(t)))
		p := start(t, f.stored(s, "--id job --no-output 5m --record-timeout 2s",
			f.child("say:ready", "await:"+f.path("go"))...))
		server.Stop(true)
		require.NoError(t, stepFuncs["touch"](f.path("go")))
		o := p.end().must(t, 0)
		assert.Regexp(t, awayEnd("; watchdog complete job records it when the store is back"), o.stderr)
	})
	parallel(t, "starts no command for a user who may not write sessions", func(t *testing.T) {
		s := openStore(t, postgresServer.DSN(t))
		s.exec(`CREATE ROLE narrow LOGIN; GRANT USAGE ON SCHEMA public TO narrow;
			GRANT SELECT ON ALL TABLES IN SCHEMA public TO narrow; GRANT INSERT ON events TO narrow`)
		f := newFixture(t)
		narrow := s
		narrow.url = strings.Replace(s.url, "user=postgres", "user=narrow", 1)
		o := finish(t, f.stored(narrow, "--id job", f.child("touch:"+f.path("started"))...)).must(t, 125)
		assert.Contains(t, o.stderr, "the role lacks rights: grant it ")
		assert.False(t, f.exists("started"))
	})
}

// TestRunRowJSON has what sessions --json says of a run that lives.
func TestRunRowJSON(t *testing.T) {
	t.Parallel()
	s := sqliteStore(t)
	f := newFixture(t)
	p := start(t, f.stored(s, "--id job --no-output 5m", f.child("say:ready", "await:"+f.path("go"))...))
	live := s.program(t, "sessions", "--json").stdout
	require.NoError(t, stepFuncs["touch"](f.path("go")))
	p.end().must(t, 0)
	said := live + s.program(t, "sessions", "--json").stdout
	said = regexp.MustCompile(`"\d{4}-[0-9T:.-]+Z"`).ReplaceAllString(said, `"TIME"`)
	said = regexp.MustCompile(`_seconds": ?[0-9.e-]+`).ReplaceAllString(said, `_seconds": SECONDS`)
	compare(t, "run_row.json", said)
}

// A said is what the readers say of a run.
type said struct {
	Status, Reason, Outcome, Signal string
	ExitStatus                      *int `json:"exit_status"`
}

// listed returns what the list of sessions says of each run.
func (s testStore) listed(t *testing.T, flags ...string) map[string]said {
	t.Helper()
	o := s.program(t, append([]string{"sessions", "--json"}, flags...)...).must(t, 0)
	var list struct {
		Sessions []struct {
			RunID string `json:"run_id"`
			said
		}
	}
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &list))
	all := map[string]said{}
	for _, one := range list.Sessions {
		all[one.RunID] = one.said
	}
	return all
}

// lastPayload returns the payload of the last event of a run.
func (s testStore) lastPayload(t *testing.T, id string) string {
	t.Helper()
	events, err := s.Read(t.Context(), event.AggregateType, id)
	require.NoError(t, err)
	require.NotEmpty(t, events)
	return string(events[len(events)-1].Payload)
}

func TestRunOutcome(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, s testStore) {
		for id, c := range map[string]struct {
			command []string
			status  int
			says    said
			event   string // ends with
			why     []string
		}{
			"good": {
				[]string{"true"}, 0, said{"finished", "complete", "succeeded", "", pointer(0)},
				`"note":"ended with status 0","outcome":"succeeded","exit_status":0}`,
				[]string{"state    complete ", "it has done its work", "nothing is left to do"},
			},
			"bad": {
				[]string{"sh", "-c", "exit 7"}, 7, said{"finished", "failed", "failed", "", pointer(7)},
				`"note":"ended with status 7","outcome":"failed","exit_status":7}`,
				[]string{"state    failed ", "why      its command failed\n         exit status 7", "same --id"},
			},
			"killed": {
				[]string{"sh", "-c", "kill -9 $$"}, 137, said{"finished", "failed", "failed", "SIGKILL", nil},
				`"note":"ended by SIGKILL","outcome":"failed","signal":"SIGKILL"}`,
				[]string{"state    failed ", "ended by SIGKILL"},
			},
			"unguarded": { // the parent of the command is its guard
				[]string{"sh", "-c", "sleep 0.5; kill -9 $PPID; sleep 60"}, 125, said{"finished", "failed", "failed", "", nil},
				`"note":"its guard was killed, and nobody saw how it ended","outcome":"failed"}`,
				[]string{"state    failed ", "its command failed", "its guard was killed"},
			},
		} {
			withFixture(t, "of a run that is "+id+" is the same for all readers", func(t *testing.T, f *fixture) {
				finish(t, f.stored(s, "--id "+id, c.command...)).must(t, c.status)
				assert.True(t, strings.HasSuffix(s.lastPayload(t, id), c.event), s.lastPayload(t, id))
				assert.Equal(t, []string{event.Complete}, s.kinds(t, id))
				assert.Equal(t, c.says, s.listed(t)[id])
				why := s.program(t, "why", id).stdout
				for _, text := range c.why {
					assert.Contains(t, why, text)
				}
				if c.says.Reason == "failed" {
					assert.NotContains(t, why, "complete")
					assert.NotContains(t, why, "done its work")
				}
				state, _, _ := strings.Cut(strings.TrimPrefix(c.why[0], "state    "), " ")
				var told struct {
					State string
					End   struct {
						Code, Outcome string
						ExitStatus    *int `json:"exit_status"`
					}
				}
				require.NoError(t, json.Unmarshal([]byte(s.program(t, "why", "--json", id).stdout), &told))
				assert.Equal(t, []string{state, c.says.Reason, c.says.Outcome}, []string{told.State, told.End.Code, told.End.Outcome})
				assert.Equal(t, c.says.ExitStatus, told.End.ExitStatus)
			})
		}
		t.Run("is what lists are filtered by", func(t *testing.T) {
			newFixture(t) // those above need one, and skip where it does
			assert.Len(t, s.listed(t, "--reason", "failed"), 3)
			assert.Equal(t, []string{"good"}, slices.Collect(maps.Keys(s.listed(t, "--reason", "complete"))))
			for reason, ids := range map[string][]string{
				"failed": {"bad", "killed", "unguarded"}, "complete": {"good"}, "watchdog_idle_timeout": nil,
			} {
				page := s.page(t, "?reason="+reason)
				for _, id := range []string{"good", "bad", "killed", "unguarded"} {
					assert.Equal(t, slices.Contains(ids, id), strings.Contains(page, `data-run="`+id+`"`), "%s in the list of %s", id, reason)
				}
			}
			assert.Contains(t, s.page(t, "?run=bad"), `<span class="badge failed">failed</span> <strong>Ended:</strong> its command failed.`)
		})
	})
}

func TestRunAgain(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, s testStore) {
		const failed, succeeds = `^watchdog: run job failed at 20\S+Z \(exit status 7\): it is resumed, in a fresh window\n$`, "true"
		withFixture(t, "a run that failed is resumed, and that is said in one line", func(t *testing.T, f *fixture) {
			finish(t, f.stored(s, "--id job", "sh", "-c", "exit 7")).must(t, 7)
			o := finish(t, f.stored(s, "--id job --json", "sh", "-c", "exit 7")).must(t, 7).says(t, `"resumed_after":"failed"`)
			assert.Equal(t, 1, strings.Count(o.stderr, "\n"), o.stderr)
			o = finish(t, f.stored(s, "--id job", succeeds)).must(t, 0)
			assert.Regexp(t, failed, o.stderr)
			assert.Equal(t, []string{
				event.Complete, event.Resume, event.Complete, event.Resume, event.Complete,
			}, s.kinds(t, "job"))
			why := s.program(t, "why", "job").stdout
			assert.Contains(t, why, "state    complete ")
			assert.Regexp(t, `(?m)^before +\S+ failed \(exit status 7\) after \S+\n +\S+ failed \(exit status 7\) after \S+\n`+
				`started .*, window 3$`, why)
			assert.Equal(t, "succeeded", s.listed(t)["job"].Outcome)
		})
		withFixture(t, "a run that succeeded starts no command, and says what to do", func(t *testing.T, f *fixture) {
			o := finish(t, f.stored(s, "--id job", f.child("touch:"+f.path("started"))...)).must(t, 125)
			assert.Regexp(t, `^watchdog: run "job" has done its work, at 20\S+Z: use another --id, or write watchdog resume job `+
				`first\n$`, o.stderr)
			assert.False(t, f.exists("started"))
			s.program(t, "resume", "job").must(t, 0)
			finish(t, f.stored(s, "--id job", "sh", "-c", "exit 5")).must(t, 5)
			assert.Regexp(t, `\(before: failed\)`, s.program(t, "resume", "job").stdout)
		})
		withFixture(t, "a run that was stopped is resumed", func(t *testing.T, f *fixture) {
			finish(t, f.stored(s, "--id late --wall-clock 300ms", "sleep", "60")).must(t, 124)
			o := finish(t, f.stored(s, "--id late", succeeds)).must(t, 0)
			assert.Regexp(t, `^watchdog: run late was stopped at 20\S+Z \(ran \S+ m?s of 300 ms, `+
				`watchdog_wall_clock_exceeded\): it is resumed, in a fresh window\n$`, o.stderr)
			assert.Equal(t, []string{event.Cancel, event.Resume, event.Complete}, s.kinds(t, "late"))
		})
	})
}

func pointer(n int) *int { return &n }
