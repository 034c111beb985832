package config_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/config"
)

func TestAcceptedFiles(t *testing.T) {
	const wallClock = "runtime_controls:\n  session_wall_clock_seconds: "
	var none watchdog.Budget
	for sentence, test := range map[string]struct {
		text string
		want watchdog.Budget
	}{
		"an empty file is absent":                {"", none},
		"a file of comments is absent":           {"# nothing\n", none},
		"a file that is null is absent":          {"null\n", none},
		"a file of one empty document is absent": {"---\n...\n", none},
		"a block without anything is absent":     {"runtime_controls:\n", none},
		"a block that is null is absent":         {"runtime_controls: ~\n", none},
		"a block of no keys is absent":           {"runtime_controls: {}\n", none},
		"a key without a value is absent":        {wallClock + "\n", none},
		"a key that is null is absent":           {wallClock + "null\n", none},
		"other blocks of the host's file are left alone": {
			"agents: {model: x, model: y}\nretries: \"3\"\n" + wallClock + "60\n", wall(time.Minute),
		},
		"a file of only the host's blocks is absent": {"agents:\n- a\n- b\n", none},
		"zero is no limit":                           {wallClock + "0\n", wall(watchdog.NoLimit)},
		"an anchor for the host's use is left alone": {wallClock + "&limit 60\nagents: *limit\n", wall(time.Minute)},
		"JSON is YAML": {
			`{"runtime_controls": {"session_wall_clock_seconds": 60}}`, wall(time.Minute),
		},
		"carriage returns and a byte order mark are fine": {
			"\ufeffruntime_controls:\r\n  session_wall_clock_seconds: 60\r\n", wall(time.Minute),
		},
		"warnings come at fractions": {
			"runtime_controls: {warn_at: [0.9, 0.5]}\n", watchdog.Budget{WarnAt: []float64{0.9, 0.5}},
		},
		"an empty list is no warnings": {
			"runtime_controls: {warn_at: []}\n", watchdog.Budget{WarnAt: []float64{}},
		},
		"zero is no warnings": {
			"runtime_controls: {warn_at: 0}\n", watchdog.Budget{WarnAt: []float64{}},
		},
		"a reserve is seconds": {
			"runtime_controls: {reserve_seconds: 30}\n", watchdog.Budget{Reserve: 30 * time.Second},
		},
		"a reserve of zero is none": {"runtime_controls: {reserve_seconds: 0}\n", none},
		"warnings switched off suit a limit switched off": {
			wallClock + "0\n  warn_at: []\n", watchdog.Budget{WallClock: watchdog.NoLimit, WarnAt: []float64{}},
		},
		"a host may have events and ladders of its own": {"events: {created: 5}\nladders: [high]\n", none},
		"a host may have scopes of its own":             {"scopes: [read, write]\n", none},
		"a host may have loops of its own":              {"loop: {mode: 5, classes: [a], volatile: x, polls: 3}\nafter: 5\n", none},
		"a host may have scopes with names":             {"scopes: [{scope: repo, spend: 5}]\n", none},
		"a host may have money of its own":              {"spend: {limit: 5}\ncost: 5\ntools: [bash]\ntokens: 5\n", none},
		"a cost is exact to the micro-unit": {
			"runtime_controls: {spend: {cost: 9223372036854.775806 USDC}}\n",
			watchdog.Budget{Spend: watchdog.Spend{Cost: watchdog.Money{Micros: watchdog.NoLimit - 1, Currency: "USDC"}}},
		},
		"a host may have a probe of its own": {"probe: {command: [id], interval: 5, timeout: 1}\n", none},
		"a host may have words close to stall": {
			"install: {on_error: fail}\nstate: off\nshell: [sh]\nstale: {probe: {interval: 5}}\n", none,
		},
		"an empty block says that near keys are the host's": {
			"runtime_controls:\nstall:\nruntime_control: {a: 1}\nwarn_at: noon\nstalls: {on_stall: x}\non_stall: x\n", none,
		},
		"the host may merge what has none of our blocks": {"base: &base {model: x}\n<<: [*base]\n", none},
		"a block overrides one that a merge brings": {
			"base: &base {runtime_controls: {warn_at: []}}\n<<: *base\n" + wallClock + "60\n", wall(time.Minute),
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			c := parse(t, test.text, nil)
			require.Equal(t, test.want, c.Budget)
		})
	}
}

func wall(limit time.Duration) watchdog.Budget { return watchdog.Budget{WallClock: limit} }

// accepted are texts without an error, each with the blocks that only the host reads.
var accepted = []row{
	{"a host may have blocks with our other names", "watchdog: {usb: /dev/watchdog}\nsentinel: 5\n", "watchdog",
		"sentinel"},
	{"a host may read the stall blocks of steps", "steps: {build: {stall: {after: 5m}}}\ndefaults: {stall: 5m}\n", "steps",
		"defaults"},
	{"a host may have a block near ours", "runtime_control: {a: 1}\nwarn_at: 5\n", "runtime_control", "warn_at"},
	{"a host may nest what is named as ours", "app: {runtime_controls: {warn_at: 5}}\n", "app"},
	{"a host may have words of ours beside our blocks",
		"runtime_controls: {warn_at: [0.5]}\nstall: {no_output_timeout: 5m}\nevents: {created: 5}\nladders: [high]\nloop: " +
			"{every: 5}\nprobe: {command: [id], path: /}\ntimeout: 5\nhost: x\nscopes: [read]\nspend: {limit: 5}\n"},
	{"a host may have a block as ours beside ours", "runtime_controls: {warn_at: [0.5]}\nloop: {mode: strict}\ncost: 5\n",
		"loop"},
	{"a host may have a key with a space before it", "\" a\": 5\nstall:\nother: 5\ninterval: 5\n"},
	{"a host may have a key with a mark before it", "\u200fa: 5\n", "\u200fa"},
	{"a block of no keys says that what follows is the host's", "stall: {}\nno_output_timeout: 5m\n"},
	{"words in other blocks are not ours", "metrics: {stall: 5, sweep: true, watchdog: x}\nsleep: 5\nsmall: 5\n"},
	{"steps without a stall block are left alone", "steps: {build: {run: x, stall: }}\n"},
	{"a step may be called stall", "steps: {stall: {run: x}}\n"},
	{"a step may have words of ours", "steps: {a: {timeout: 5m, enabled: x, probe: {interval: 5}}}\n"},
	{"steps that are not steps are left alone", "steps: 5\ndefaults: [a]\ncompletion_check: x\n"},
	{"words of the sweep block, but not in one",
		"enabled: true\ninterval: 5m\nmin_age: 1\nstartup_delay: 5s\ngrace: 5s\nstop_timeout: 1\nsleep: {interval: 5}\n" +
			"sweet: {enabled: true}\ndry_run: true\nalert_count: 5\nkeeper: {pace: 5, host: x}\n"},
}

// effective are settings of runtime_controls that can take effect, though they look as if they could not.
var effective = []row{
	{"idle may equal no progress with another first directive",
		"no_progress_timeout_seconds: 60\n  idle_timeout_seconds: 60\n  ladders: {no_progress: [retry]}"},
	{"safety may exceed the wall clock, which can be extended",
		"session_wall_clock_seconds: 60\n  safety_timeout_seconds: 120"},
	{"safety may equal the wall clock, which survives a restart",
		"session_wall_clock_seconds: 60\n  safety_timeout_seconds: 60"},
	{"a ladder of holds needs no cap, because a hold may bring its own", "ladders: {hold: [retry]}"},
	{"a ladder of idle needs no limit, because a hold may bring its own", "ladders: {idle: [retry]}"},
	{"a ladder may end in a wait, or in a cancel after it", "ladders: {idle: [retry, wait], hold: [wait, cancel]}"},
	{"a ladder of idle may be one of the first sign",
		"no_progress_timeout_seconds: 60\n  from_first_sign: true\n  first_sign_timeout_seconds: 30\n  ladders: {idle: " +
			"[retry]}"},
	{"a first sign may take longer than idle allows afterwards",
		"idle_timeout_seconds: 60\n  from_first_sign: true\n  first_sign_timeout_seconds: 300"},
	{"events need no limit, because a layer may have one", "events: {material: [commit], unknown: activity}"},
	{"a kind may be said to be what unknown kinds are", "events: {ignored: [token], unknown: ignored}"},
	{"a tick may be longer than a session: it need not be in one",
		"session_wall_clock_seconds: 60\n  max_tick_duration_minutes: 30"},
	{"a grace may be as long as its tick", "max_tick_duration_minutes: 1\n  tick_grace_seconds: 60"},
	{"without a wall clock idle may have any length", "session_wall_clock_seconds: 0\n  idle_timeout_seconds: 9223372036"},
	{"a ladder of a count needs no limit, because a scope may have one",
		"ladders: {tokens: [wait], cost: [wait], requests: [wait], turns: [wait], tool_calls: [wait]}"},
	{"a reserve may be one less than its limit", "spend: {turns: 5, reserve: {turns: 4}}"},
	{"warnings of counts may be of one tool only", "spend: {tools: {bash: 5}, warn_at: [0.5]}"},
	{"a ladder of errors may be one of retries", "spend: {retries: 5}\n  ladders: {errors: [unstuck]}"},
	{"scopes may have the currency of the run", "spend: {cost: 5 EUR}\n  scopes:\n  - {scope: a, spend: {cost: 5 EUR}}"},
	{"what is off may say that it has no settings", "loop: {mode: off, waits: go, classes: 0, volatile: 0}"},
	{"settings that are switched off need nothing",
		"from_first_sign: false\n  first_sign_timeout_seconds: 0\n  ladders: {idle: [], no_progress: []}"},
}

// effectiveStalls are the same for a stall block.
var effectiveStalls = []row{
	{"one signal is enough: silence",
		"no_output_timeout: 5m\n  on_stall: fail\n  interrupt_grace: 1s\n  keep_background: true\n  fingerprint_prefix: ci"},
	{"one signal is enough: a probe",
		"probe: {command: [x]}\n  on_stall: fail\n  on_terminal: fail\n  stall_threshold: 2\n  terminate_grace: 0\n  " +
			"keep_background: true\n  fingerprint_prefix: ci"},
	{"one signal is enough: a pattern",
		"terminal_patterns: [x]\n  on_terminal: ignore\n  keep_background: true\n  fingerprint_prefix: ci"},
	{"a grace may be there where nothing is asked", "no_output_timeout: 5m\n  on_stall: fail\n  interrupt_grace: 1s"},
	{"a probe may be one that takes its whole time", "probe: {command: [x], interval: 5s, timeout: 5s}"},
	{"settings that are switched off need nothing",
		"no_output_timeout: 0\n  keep_background: false\n  terminal_patterns: []"},
	{"errors that mean nothing need no probe", "no_output_timeout: 5m\n  probe: {on_probe_error: ignore}"},
	{"a stall of a probe needs no limit of its output",
		"no_output_timeout: 0\n  probe: {command: [x]}\n  on_stall: ignore"},
}

// rows are texts that need no sentence.
func rows(texts ...string) (all []row) {
	for _, text := range texts {
		all = append(all, row{text, text})
	}
	return all
}

// effectiveSweeps are the same for a sweep block: settings that just go together.
var effectiveSweeps = rows(
	"", "stalled_threshold: 2m, keeper: {pace: 30s}", "keeper: {pace: 2m30s}", "stalled_threshold: 4s",
	"stalled_threshold: 1h, keeper: {pace: 15m}", "keeper: {host: 'worker 7'}", "keeper: {promise: 1s}",
	"keeper: {promise: 5m}", "max_cancellations_per_minute: 1", "stalled_threshold: 1m, keeper: {pace: 15s}",
)

// TestAccepted expects no error, and settings that a watchdog, a sentinel, a keeper and a sweeper accept.
func TestAccepted(t *testing.T) {
	for form, all := range map[string][]row{
		"%s": accepted, "runtime_controls:\n  %s\n": effective, "stall:\n  %s\n": effectiveStalls,
		"sweep: {%s}\n": effectiveSweeps,
	} {
		for _, test := range all {
			loader := config.Loader{Environment: []string{}, HostBlocks: test[2:]}
			c, err := loader.Parse(file, fmt.Appendf(nil, form, test[1]))
			require.NoError(t, err, test[0])
			requireUsable(t, c)
		}
	}
}
