package config_test

import (
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
		"a whole number is seconds":                  {wallClock + "14400\n", wall(4 * time.Hour)},
		"a decimal number is seconds":                {wallClock + "0.5\n", wall(time.Second / 2)},
		"a number is exact to the nanosecond":        {wallClock + "1.000000001\n", wall(time.Second + 1)},
		"the longest duration is a number of seconds": {
			wallClock + "9223372036.854775806\n", wall(watchdog.NoLimit - 1),
		},
		"zero is no limit":                           {wallClock + "0\n", wall(watchdog.NoLimit)},
		"zero with decimals is no limit":             {wallClock + "0.000\n", wall(watchdog.NoLimit)},
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
			c, err := config.Parse("limits.yaml", []byte(test.text), config.NoEnvironment)
			require.NoError(t, err)
			require.Equal(t, test.want, c.Budget)
		})
	}
}

func wall(limit time.Duration) watchdog.Budget { return watchdog.Budget{WallClock: limit} }

func TestAcceptedVariables(t *testing.T) {
	const file = "runtime_controls:\n  session_wall_clock_seconds: 3600\n  warn_at: [0.5]\n  reserve_seconds: 60\n"
	from := watchdog.Budget{WallClock: time.Hour, WarnAt: []float64{0.5}, Reserve: time.Minute}
	for sentence, test := range map[string]struct {
		variable, value string
		want            func(*watchdog.Budget)
	}{
		"a variable that is not set leaves the file's limit": {"WATCHDOG_OTHER", "5s", func(*watchdog.Budget) {}},
		"a whole number of seconds overrides the file": {
			"WATCHDOG_SESSION_WALL_CLOCK_SECONDS", "120", func(b *watchdog.Budget) { b.WallClock = 2 * time.Minute },
		},
		"a decimal number of seconds overrides the file": {
			"WATCHDOG_RESERVE_SECONDS", "0.25", func(b *watchdog.Budget) { b.Reserve = time.Second / 4 },
		},
		"fractions are divided by commas": {
			"WATCHDOG_WARN_AT", "0.25,0.75", func(b *watchdog.Budget) { b.WarnAt = []float64{0.25, 0.75} },
		},
		"zero is no warnings": {
			"WATCHDOG_WARN_AT", "0", func(b *watchdog.Budget) { b.WarnAt = []float64{} },
		},
		"zero switches off a limit and what the file tunes": {
			"WATCHDOG_SESSION_WALL_CLOCK_SECONDS", "0",
			func(b *watchdog.Budget) { *b = watchdog.Budget{WallClock: watchdog.NoLimit, WarnAt: []float64{}} },
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			c, err := config.Parse("limits.yaml", []byte(file), environment(map[string]string{test.variable: test.value}))
			require.NoError(t, err)
			want := from
			test.want(&want)
			require.Equal(t, want, c.Budget)
		})
	}
}
