package artifact_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/stall/internal/artifact"
)

func exit(code int) *int { return &code }

// tripped is an event before the first signal.
func tripped() artifact.Event {
	return artifact.Event{
		CheckID: "tests-pass", Workflow: "release", Iteration: 3, RunID: "s-1/build", EventID: "6f9619ff-8b86-5d01-b42d-00cf4fc964ff",
		Trigger:      artifact.Trigger{Kind: artifact.NoProgress, Reason: "3 probes in a row saw the same", ObservedAtUnix: 1767225600},
		Action:       artifact.Action{Kind: "interrupt", Requested: []string{"SIGINT", "SIGTERM", "SIGKILL"}},
		Fingerprints: []string{artifact.Fingerprint("ci", artifact.NoProgressFingerprint("00112233445566778899aabb")), "k8s/crd/missing:widgets", "k8s/crd/missing:widgets"},
	}
}

// ended is the same event after the last signal.
func ended() artifact.Event {
	e := tripped()
	e.Action.Sent = []artifact.Sent{
		{Signal: "SIGINT", SentAtUnixMS: 1767225600125, Processes: 3},
		{Signal: "SIGTERM", SentAtUnixMS: 1767225610126, Processes: 2},
	}
	e.Action.Terminated, e.Action.EndedBy, e.Action.ExitCode = true, "SIGTERM", exit(143)
	e.Reasons = []string{"widgets.example.org is not there & <never> was"}
	e.Complete = true
	return e
}

func TestTheFilesAreAContract(t *testing.T) {
	b := newBed(t)
	unchanged(t, b.outside)
	d := b.open("build")

	require.NoError(t, d.AppendProbe(artifact.Probe{AtUnixMS: 1767225570000, DurationMS: 12, ExitCode: exit(0), Class: "progressing", Digest: "00112233445566778899aabb", Same: 1}))
	require.NoError(t, d.AppendProbe(artifact.Probe{AtUnixMS: 1767225600000, DurationMS: 5000, Blind: artifact.BlindTimeout}))
	require.NoError(t, d.AppendProbe(artifact.Probe{
		AtUnixMS: 1767225630000, ExitCode: exit(1), Class: "stalled", Digest: "00112233445566778899aabb", Same: 2,
		Fingerprints: []string{"k8s/b", "k8s/a"}, Reasons: []string{"waits\nfor <b>"}, Summary: "2 of 3",
	}))
	golden(t, "probe.jsonl", b.read(artifact.ProbeFile))

	require.NoError(t, d.WriteEvent(tripped()))
	golden(t, "event_tripped.json", b.read(artifact.EventFile))

	require.NoError(t, d.WriteTail([]byte("the end\n")))
	golden(t, "stderr.tail.log", b.read(artifact.TailFile))

	require.NoError(t, d.WriteDecision(artifact.Decision{
		CheckID: "tests-pass", Workflow: "release", Iteration: 3, Reasons: []string{"waits"},
		Fingerprints: []string{"k8s/b", "k8s/a"}, DecidedAtUnix: 1767225615,
	}))
	golden(t, "decision.json", b.read(artifact.DecisionFile))

	require.NoError(t, d.WriteEvent(ended()))
	golden(t, "event_ended.json", b.read(artifact.EventFile))
	require.ElementsMatch(t, files, b.names(), "nothing is left beside them")
}

func TestOnlyWhatWasWrittenIsPointedTo(t *testing.T) {
	b := newBed(t)
	require.Empty(t, failures(writeAll(b.open("build"))), "an earlier attempt at the step leaves everything")

	d := b.open("build")
	require.NoError(t, d.WriteEvent(artifact.Event{Pointers: artifact.Pointers{Probe: "/etc/passwd"}, Schema: "mine", Step: "other"}))
	golden(t, "event_empty.json", b.read(artifact.EventFile))
	require.NoError(t, os.Remove(b.path(artifact.EventFile)))
	d = b.open("build")
	require.NoError(t, d.WriteDecision(artifact.Decision{Event: "../x", Decision: "complete"}))
	golden(t, "decision_empty.json", b.read(artifact.DecisionFile))
}

func TestOnlyThisUserCanReadWhatIsMade(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a mode does not say who may read there")
	}
	b := newBed(t)
	b.root = filepath.Join(b.base, "state", "artifacts")
	require.Empty(t, failures(writeAll(b.open("build"))))
	for _, folder := range []string{"state", "state/artifacts", "state/artifacts/build", "state/artifacts/build/_stall"} {
		info, err := os.Stat(filepath.Join(b.base, folder))
		require.NoError(t, err)
		require.Equal(t, os.ModeDir|0o700, info.Mode(), folder)
	}
	for _, name := range files {
		info, err := os.Stat(b.path(name))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode(), name)
	}
}

func TestOpen(t *testing.T) {
	t.Run("a step that does not stall leaves no folder", func(t *testing.T) {
		b := newBed(t)
		b.open("build")
		entries, err := os.ReadDir(b.root)
		require.NoError(t, err)
		require.Empty(t, entries)
	})
	t.Run("the root's own mode stays", func(t *testing.T) {
		b := newBed(t)
		require.NoError(t, os.Mkdir(b.root, 0o755))
		unchanged(t, b.root)
		b.open("build")
	})
	t.Run("the root may be named by a link and by a relative path", func(t *testing.T) {
		b := newBed(t)
		target := filepath.Join(b.base, "real")
		require.NoError(t, os.Mkdir(target, 0o700))
		b.link(target, b.root)
		t.Chdir(b.base)
		d, err := artifact.Open("root", "build")
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, d.Close()) })
		require.Empty(t, failures(writeAll(d)))
		require.FileExists(t, filepath.Join(target, "build", artifact.Folder, artifact.EventFile))
	})
	t.Run("an empty root is none", func(t *testing.T) {
		_, err := artifact.Open("", "build")
		require.ErrorContains(t, err, "open stall artifacts: the root folder is empty")
	})
	t.Run("a closed one says so", func(t *testing.T) {
		b := newBed(t)
		d := b.open("build")
		require.NoError(t, d.Close())
		require.NoError(t, d.Close())
		for name, err := range writeAll(d) {
			require.ErrorIs(t, err, os.ErrClosed, name)
		}
	})
}

// failures are the errors that are not nil.
func failures(errs map[string]error) map[string]error {
	failed := map[string]error{}
	for name, err := range errs {
		if err != nil {
			failed[name] = err
		}
	}
	return failed
}
