package main_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

// A said is what the readers say of a run.
type said struct {
	Status, Reason, Outcome, Signal string
	ExitStatus                      *int `json:"exit_status"`
}

// listed returns what the list of sessions says of each run.
func (s testStore) listed(t *testing.T, flags ...string) map[string]said {
	t.Helper()
	o := s.program(t, append([]string{"sessions", "--json"}, flags...)...)
	require.Zero(t, o.status, o.stderr)
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
	events, err := s.Read(t.Context(), watchdog.AggregateType, id)
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
			t.Run("of a run that is "+id+" is the same for all readers", func(t *testing.T) {
				f := newFixture(t)
				finish(t, f.stored(s, "--id "+id, c.command...)).must(t, c.status)
				assert.True(t, strings.HasSuffix(s.lastPayload(t, id), c.event), s.lastPayload(t, id))
				assert.Equal(t, []string{watchdog.EventComplete}, s.kinds(t, id))
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
			base, end := serve(t, "--store="+s.url, "--page")
			defer end()
			for reason, ids := range map[string][]string{
				"failed": {"bad", "killed", "unguarded"}, "complete": {"good"}, "watchdog_idle_timeout": nil,
			} {
				status, page := get(t, base+"?reason="+url.QueryEscape(reason))
				require.Equal(t, http.StatusOK, status)
				for _, id := range []string{"good", "bad", "killed", "unguarded"} {
					assert.Equal(t, slices.Contains(ids, id), strings.Contains(page, `data-run="`+id+`"`), "%s in the list of %s", id, reason)
				}
			}
			_, page := get(t, base+"?run=bad")
			assert.Contains(t, page, `<span class="badge failed">failed</span> <strong>Ended:</strong> its command failed.`)
		})
	})
}

func TestRunAgain(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, s testStore) {
		const failed, succeeds = `^watchdog: run job failed at 20\S+Z \(exit status 7\): it is resumed, in a fresh window\n$`, "true"
		t.Run("a run that failed is resumed, and that is said in one line", func(t *testing.T) {
			f := newFixture(t)
			finish(t, f.stored(s, "--id job", "sh", "-c", "exit 7")).must(t, 7)
			o := finish(t, f.stored(s, "--id job --json", "sh", "-c", "exit 7")).must(t, 7)
			assert.Contains(t, o.stderr, `"resumed_after":"failed"`)
			assert.Equal(t, 1, strings.Count(o.stderr, "\n"), o.stderr)
			o = finish(t, f.stored(s, "--id job", succeeds)).must(t, 0)
			assert.Regexp(t, failed, o.stderr)
			assert.Equal(t, []string{
				watchdog.EventComplete, watchdog.EventResume, watchdog.EventComplete, watchdog.EventResume, watchdog.EventComplete,
			}, s.kinds(t, "job"))
			why := s.program(t, "why", "job").stdout
			assert.Contains(t, why, "state    complete ")
			assert.Regexp(t, `(?m)^before +\S+ failed \(exit status 7\) after \S+\n +\S+ failed \(exit status 7\) after \S+\n`+
				`started .*, window 3$`, why)
			assert.Equal(t, "succeeded", s.listed(t)["job"].Outcome)
		})
		t.Run("a run that succeeded starts no command, and says what to do", func(t *testing.T) {
			f := newFixture(t)
			o := finish(t, f.stored(s, "--id job", f.child("touch:"+f.path("started"))...)).must(t, 125)
			assert.Regexp(t, `^watchdog: run "job" has done its work, at 20\S+Z: use another --id, or write watchdog resume job `+
				`first\n$`, o.stderr)
			assert.False(t, f.exists("started"))
			o = s.program(t, "resume", "job")
			require.Zero(t, o.status, o.stderr)
			finish(t, f.stored(s, "--id job", "sh", "-c", "exit 5")).must(t, 5)
			assert.Regexp(t, `\(before: failed\)`, s.program(t, "resume", "job").stdout)
		})
		t.Run("a run that was stopped is resumed", func(t *testing.T) {
			f := newFixture(t)
			finish(t, f.stored(s, "--id late --wall-clock 300ms", "sleep", "60")).must(t, 124)
			o := finish(t, f.stored(s, "--id late", succeeds)).must(t, 0)
			assert.Regexp(t, `^watchdog: run late was stopped at 20\S+Z \(ran \S+ m?s of 300 ms, `+
				`watchdog_wall_clock_exceeded\): it is resumed, in a fresh window\n$`, o.stderr)
			assert.Equal(t, []string{watchdog.EventCancel, watchdog.EventResume, watchdog.EventComplete}, s.kinds(t, "late"))
		})
	})
}

// TestMeterAllRefused runs a command that makes nothing of it that no call is let through.
func TestMeterAllRefused(t *testing.T) {
	t.Parallel()
	s := sqliteStore(t)
	settings := file(t, "watchdog.yaml", "runtime_controls:\n  spend: {tokens: 1310, reserve: {tokens: 1300}}\n")
	f, m := newFixture(t), serveModels(t)
	metered := func(id string, steps ...string) outcome {
		cmd := f.metered(m, "--config "+settings+" --id "+id, steps...)
		cmd.Env = append(cmd.Env, "WATCHDOG_STORE="+s.url)
		return f.ended(cmd)
	}
	metered("none", "ask:chat").must(t, 0)
	assert.Equal(t, said{"finished", "failed", "failed", "", pointer(0)}, s.listed(t)["none"])
	assert.Contains(t, s.lastPayload(t, "none"), `"note":"ended with status 0, and none of its calls of models was answered, `+
		`and 1 were refused","outcome":"failed","exit_status":0`)
	assert.Contains(t, s.program(t, "why", "none").stdout, "state    failed ")
	o := metered("none", "ask:chat", "ask:chat").must(t, 0)
	assert.Regexp(t, `(?m)^watchdog: run none failed at 20\S+Z \(exit status 0\): it is resumed, in a fresh window with all that `+
		`it may spend$`, o.stderr)
	metered("some", "ask:chat", "ask:chat").must(t, 0)
	assert.Equal(t, said{"finished", "complete", "succeeded", "", pointer(0)}, s.listed(t)["some"])
}

func pointer(n int) *int { return &n }
