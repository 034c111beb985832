package watchdog_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/notify"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/stall"
	"github.com/seed62658d38/watchdog/sweep"
)

// TestDocumentedDefaults protects what the documents say of a default or a bound: it is the constant's. What is
// measured stands in tables that bench/tables writes, and the keys of a file are compared by package config.
func TestDocumentedDefaults(t *testing.T) {
	renewals := 3 * float64(time.Second) / float64(session.DefaultPromise) // of a lease, a second
	rows := 10 * float64(time.Second) / float64(session.DefaultThreshold)  // of a busy run, a second
	for _, c := range []struct {
		page, format string
		values       []any
	}{
		{"guide", "by at most %v seconds (`watchdog.Config.RecordTimeout`)", []any{watchdog.DefaultRecordTimeout.Seconds()}},
		{"operations", "(%v seconds, `watchdog.DefaultRecordTimeout`)", []any{watchdog.DefaultRecordTimeout.Seconds()}},
		{"operations", "every %v seconds (`session.KeeperConfig.Poll`)", []any{session.DefaultPoll.Seconds()}},
		{"operations", "at most %v seconds (`session.LockWait`)", []any{session.LockWait.Seconds()}},
		{"operations-alerts", "Cancels from other hosts arrive up to %v seconds later", []any{session.DefaultPoll.Seconds()}},
		{"operations-alerts", "At the defaults, %d sessions every %v minutes", []any{
			sweep.DefaultMaxCancellations, sweep.DefaultInterval.Minutes(),
		}},
		{"sessions", "(%v seconds; `KeeperConfig.Promise`, from %v second to %v minutes)", []any{
			session.DefaultPromise.Seconds(), session.ShortestPromise.Seconds(), session.LongestPromise.Minutes(),
		}},
		{"sessions", "`min_age` old (%v minutes;", []any{sweep.DefaultMinAge.Minutes()}},
		{"sessions", "the threshold (%v minutes)", []any{sweep.DefaultStalledThreshold.Minutes()}},
		{"cost", "three times in a promise (%v seconds)", []any{session.DefaultPromise.Seconds()}},
		{"cost", "1,000 hosts write %.0f rows a second", []any{1000 * renewals}},
		{"cost", "10,000,000 runs that are all busy are %.0f,000 rows", []any{10_000 * rows}},
		{"spend", "at %v by default", []any{watchdog.DefaultWarnAt}},
		{"configuration-reference", "is warned; %v where one is limited", []any{watchdog.DefaultWarnAt}},
		{"stall", "SIGTERM %v seconds later and SIGKILL after %v more", []any{
			stall.DefaultInterruptGrace.Seconds(), stall.DefaultTerminateGrace.Seconds(),
		}},
		{"stall", "`AlsoEnd.Timeout`, %v seconds by default", []any{stall.DefaultAlsoEndTimeout.Seconds()}},
		{"command", "SIGINT, %v seconds later SIGTERM and %v seconds later SIGKILL", []any{
			stall.DefaultInterruptGrace.Seconds(), stall.DefaultTerminateGrace.Seconds(),
		}},
		{"notifications", "After %v seconds the try has failed", []any{notify.DefaultTimeout.Seconds()}},
		{"notifications", "`keep_for`, %v days if nothing is set", []any{notify.DefaultKeepFor.Hours() / 24}},
	} {
		require.Contains(t, words(readText(t, "docs/"+c.page+".md")), fmt.Sprintf(c.format, c.values...), c.page)
	}
}

// TestDocumentedBounds protects what the documents say of a bound that no package exports: the line of code that sets it
// is there.
func TestDocumentedBounds(t *testing.T) {
	for _, c := range []struct{ page, says, file, line string }{
		{"command", "SIGINT within 250 ms", "cmd/watchdog/signals.go", "return 250 * time.Millisecond"},
		{"events", "after every sixteen", "internal/journal/checkpoint.go", "var CheckpointAfter = 16"},
		{"events", "None is above 32 KiB", "internal/fold/checkpoint.go", "const maxCheckpoint = 32 << 10"},
		{"events", "`survivor_pids` the first sixteen", "internal/record/payload.go", "const maxPIDs = 16"},
		{"events", "counts, at most 8 KiB", "loop/state.go", "const MaxState = 8 << 10"},
		{"events", "at most one a minute", "internal/looper/looper.go", "const pace = time.Minute"},
		{"loops", "more than 5 % of a file", "transcript/reader.go", "c.Unknown*20 > c.Lines"},
		{"loops", "more than 128 MiB", "transcript/document.go", "const maxValue = 128 << 20"},
		{"meter", "at most 45 s", "watchdoghttp/meter.go", "const DefaultWait = 45 * time.Second"},
		{"meter", "longer than 32 MiB", "cmd/watchdog/internal/modelproxy/proxy.go", "const longestBody = 32 << 20"},
		{"meter", "below 1,024", "watchdoghttp/internal/usage/body.go", "shortest = 1024"},
		{"notifications", "more than five minutes", "notify/sign.go", "const tolerance = 5 * time.Minute"},
		{"notifications", "24 to 64 random bytes", "notify/sign.go", "const leastSecret, mostSecret = 24, 64"},
		{
			"notifications", "tried again after 5 seconds, then 10, 20, up to an hour, less up to a fifth", "notify/round.go",
			"firstPause, longestPause = 5 * time.Second, time.Hour",
		},
		{"operations-alerts", "at least three leases and a third of all", "internal/verdict/session.go", "fleet = 3 partOfAll = 3"},
		{"sessions", "more than 64 such rows", "session/lease.go", "const MaxBehind = 64"},
		{"spend", "the last 1,024", "internal/ledger/admit.go", "const maxSettled = 1024"},
		{"stall", "when 64 KiB are waiting", "stall/pipe.go", "pipeSize = 64 << 10"},
		{"stall", "object of at most 64 KiB", "stall/internal/probe/probe.go", "MaxOutput = 64 << 10"},
		{"stall", "at most 32 short names", "stall/internal/probe/probe.go", "MaxFingerprints = 32"},
		{"stall", "has the first 100", "stall/watch.go", "const maxTrips = 100"},
	} {
		require.Contains(t, words(readText(t, "docs/"+c.page+".md")), c.says, c.page)
		require.Contains(t, words(readText(t, c.file)), c.line, "%s says: %s", c.page, c.says)
	}
}

// words has single spaces in place of all white space.
func words(text string) string { return strings.Join(strings.Fields(text), " ") }

// TestDocumentedGo protects the oldest version of Go that the documents name.
func TestDocumentedGo(t *testing.T) {
	_, rest, found := strings.Cut(readText(t, "go.mod"), "\ngo 1.")
	require.True(t, found)
	minor, _, _ := strings.Cut(strings.Fields(rest)[0], ".")
	require.Contains(t, readText(t, "README.md"), "Go 1."+minor+" or later")
	require.Contains(t, readText(t, "docs/cost.md"), "Go to 1."+minor)
}
