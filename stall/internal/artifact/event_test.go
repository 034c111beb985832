package artifact_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/golden"
	"github.com/seed62658d38/watchdog/stall/internal/artifact"
)

const digest = "00112233445566778899aabb"

func exit(code int) *int { return &code }

// tripped is an event before the first signal.
func tripped() artifact.Event {
	return artifact.Event{
		CheckID: "tests-pass", Workflow: "release", Iteration: 3,
		RunID: "s-1/build", EventID: "6f9619ff-8b86-5d01-b42d-00cf4fc964ff",
		Trigger: artifact.Trigger{
			Kind: "no_progress", Reason: "3 probes in a row saw the same", ObservedAtUnix: 1767225600,
		},
		Action: artifact.Action{Kind: "interrupt", Requested: []string{"SIGINT", "SIGTERM", "SIGKILL"}},
		Fingerprints: []string{
			artifact.Fingerprint("ci", artifact.NoProgressFingerprint(digest)),
			"k8s/crd/missing:widgets", "k8s/crd/missing:widgets",
		},
		Pointers: artifact.Pointers{StepLog: "root/build/_logs/worker.log", ProbeLog: "not mine"},
	}
}

// ended is the same event after the last signal.
func ended() artifact.Event {
	e := tripped()
	e.Action.Sent = []artifact.Sent{
		{Signal: "SIGINT", SentAtUnixMS: 1767225600125, Processes: 3},
		{Signal: "SIGTERM", SentAtUnixMS: 1767225610126, Processes: 2},
		{Signal: "SIGTERM", SentAtUnixMS: 1767225610127, Processes: 1},
	}
	e.Action.Terminated, e.Action.EndedBy, e.Action.ExitCode = true, "SIGTERM", exit(143)
	e.Reasons = []string{"widgets.example.org is not there & <never> was"}
	e.Complete = true
	e.AlsoEnd = &artifact.AlsoEnd{ExitCode: exit(1), Failed: "exit", DurationMS: 12}
	return e
}

// TestGolden compares the bytes of every file, which are a contract.
func TestGolden(t *testing.T) {
	f := newFixture(t)
	expectUnchanged(t, f.outside)
	d := f.open("build")

	require.NoError(t, d.AppendProbe(artifact.Probe{
		AtUnixMS: 1767225570000, DurationMS: 12, ExitCode: exit(0), Class: "progressing", Digest: digest, Same: 1,
	}))
	require.NoError(t, d.AppendProbe(artifact.Probe{
		AtUnixMS: 1767225600000, DurationMS: 5000, Blind: "timeout",
	}))
	require.NoError(t, d.AppendProbe(artifact.Probe{
		AtUnixMS: 1767225630000, ExitCode: exit(1), Class: "stalled", Digest: digest, Same: 2,
		Fingerprints: []string{"k8s/b", "k8s/a"}, Reasons: []string{"waits\nfor <b>"}, Summary: "2 of 3",
	}))
	golden.Compare(t, "testdata/"+"probe.jsonl", f.read(artifact.ProbeFile))

	require.NoError(t, d.WriteEvent(tripped()))
	golden.Compare(t, "testdata/"+"event_tripped.json", f.event())

	require.NoError(t, d.WriteTail([]byte("the end\n")))
	golden.Compare(t, "testdata/"+"stderr.tail.log", f.read(artifact.TailFile))

	require.NoError(t, d.WriteDecision(artifact.Decision{
		CheckID: "tests-pass", Workflow: "release", Iteration: 3, Reasons: []string{"waits"},
		Fingerprints: []string{"k8s/b", "k8s/a"}, DecidedAtUnix: 1767225615,
	}))
	golden.Compare(t, "testdata/"+"decision.json", f.read(artifact.DecisionFile))

	require.NoError(t, d.WriteEvent(ended()))
	golden.Compare(t, "testdata/"+"event_ended.json", f.event())
	require.ElementsMatch(t, files, f.names(), "no other file is left")
}

// event returns event.json without the root folder of this test, with which the path of the probes begins.
func (f *fixture) event() string {
	f.t.Helper()
	return strings.ReplaceAll(f.read(artifact.EventFile), filepath.ToSlash(f.root), "root")
}

// TestPointers checks that an artifact points only to files that the same Dir wrote.
func TestPointers(t *testing.T) {
	f := newFixture(t)
	require.Empty(t, failures(writeAll(f.open("build"))), "an earlier attempt at the step leaves all files")

	d := f.open("build")
	require.NoError(t, d.WriteEvent(artifact.Event{
		Pointers: artifact.Pointers{Probe: "/etc/passwd"}, Schema: "mine", Step: "other", StepID: "other",
		Action: artifact.Action{Signals: []string{"SIGHUP"}},
	}))
	golden.Compare(t, "testdata/"+"event_empty.json", f.read(artifact.EventFile))
	require.NoError(t, os.Remove(f.path(artifact.EventFile)))
	d = f.open("build")
	require.NoError(t, d.WriteDecision(artifact.Decision{Event: "../x", Decision: "complete"}))
	golden.Compare(t, "testdata/"+"decision_empty.json", f.read(artifact.DecisionFile))
}

// TestModes checks that only this user can read the files.
func TestModes(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("file modes do not say who may read")
	}
	f := newFixture(t)
	f.root = filepath.Join(f.base, "state", "artifacts")
	require.Empty(t, failures(writeAll(f.open("build"))))
	for _, folder := range []string{"state", "state/artifacts", "state/artifacts/build", "state/artifacts/build/_stall"} {
		info, err := os.Stat(filepath.Join(f.base, folder))
		require.NoError(t, err)
		require.Equal(t, os.ModeDir|0o700, info.Mode(), folder)
	}
	for _, name := range files {
		info, err := os.Stat(f.path(name))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode(), name)
	}
}

func TestOpen(t *testing.T) {
	t.Run("a step that does not stall leaves no folder", func(t *testing.T) {
		f := newFixture(t)
		f.open("build")
		entries, err := os.ReadDir(f.root)
		require.NoError(t, err)
		require.Empty(t, entries)
	})
	t.Run("the root's own mode stays", func(t *testing.T) {
		f := newFixture(t)
		require.NoError(t, os.Mkdir(f.root, 0o755))
		expectUnchanged(t, f.root)
		f.open("build")
	})
	t.Run("the root may be named by a link and by a relative path", func(t *testing.T) {
		f := newFixture(t)
		target := filepath.Join(f.base, "real")
		require.NoError(t, os.Mkdir(target, 0o700))
		f.link(target, f.root)
		t.Chdir(f.base)
		d, err := artifact.Open("root", "build")
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, d.Close()) })
		require.Empty(t, failures(writeAll(d)))
		require.FileExists(t, filepath.Join(target, "build", artifact.Folder, artifact.EventFile))
	})
	t.Run("writes after Close are errors", func(t *testing.T) {
		f := newFixture(t)
		d := f.open("build")
		require.NoError(t, d.Close())
		require.NoError(t, d.Close())
		for name, err := range writeAll(d) {
			require.ErrorIs(t, err, os.ErrClosed, name)
		}
	})
}

// failures returns the errors that are not nil.
func failures(errs map[string]error) map[string]error {
	failed := map[string]error{}
	for name, err := range errs {
		if err != nil {
			failed[name] = err
		}
	}
	return failed
}

func TestFingerprint(t *testing.T) {
	tooLong := artifact.Fingerprint("", strings.Repeat("x", 201))
	for want, got := range map[string]string{
		"stall/no_output":                   artifact.NoOutputFingerprint,
		"ci/stall/no_output:never":          artifact.Fingerprint("ci", artifact.NeverOutputFingerprint),
		"stall/no_progress:001122334455":    artifact.NoProgressFingerprint(digest),
		"stall/terminal:pattern-1":          artifact.PatternFingerprint(1),
		"stall/probe_blind:timeout":         artifact.BlindFingerprint("timeout"),
		"k8s/crd/missing:widgets.example":   artifact.Fingerprint("k8s", "crd/missing:widgets.example"),
		"A-Z_a.z:0/9@x=y+z":                 artifact.Fingerprint("", "A-Z_a.z:0/9@x=y+z"),
		"two_words-a03f1d611645":            artifact.Fingerprint("", "two words"),
		"_-e3b0c44298fc":                    "_" + artifact.Fingerprint("", ""),
		"gr__e-d353a2671b67":                artifact.Fingerprint("", "größe"),
		"ci/stall/no_output-not":            artifact.Fingerprint("ci", "stall/no_output-not"),
		strings.Repeat("x", 200):            artifact.Fingerprint("", strings.Repeat("x", 200)),
		strings.Repeat("x", 187) + "-other": strings.TrimRight(tooLong, "0123456789abcdef") + "other",
	} {
		require.Equal(t, want, got)
	}
}

// TestFingerprintUnique checks that every text has a valid fingerprint of its own.
func TestFingerprintUnique(t *testing.T) {
	long := strings.Repeat("x", 300)
	texts := []string{
		"", " ", "\n", "a b", "a\tb", "a_b", "größe", "gr\xff", long, long + "y", long + "z", "\x00", "界", "a\"b", "<a>",
	}
	seen := map[string]string{}
	for _, prefix := range []string{"", "ci", "two words", long} {
		for _, text := range texts {
			got := artifact.Fingerprint(prefix, text)
			require.True(t, artifact.ValidFingerprint(got), "%q of %q", got, text)
			require.Equal(t, got, artifact.Fingerprint(prefix, text), "it is stable")
			require.Empty(t, seen[got], "%q and %q have the same fingerprint", text, seen[got])
			seen[got] = prefix + "|" + text
		}
	}
}

func TestInvalidFingerprint(t *testing.T) {
	for _, text := range []string{"", "a b", "a\n", "é", "a\xff", "a\x00", `a"`, "a,b", "a*", strings.Repeat("x", 201)} {
		require.False(t, artifact.ValidFingerprint(text), "%q", text)
	}
}

// TestSet checks that a set is sorted, is bounded and has no duplicates.
func TestSet(t *testing.T) {
	require.Equal(t, []string{}, artifact.Set(nil))
	given := []string{"b", "a", "b", "two words", "a"}
	require.Equal(t, []string{"a", "b", "two_words-a03f1d611645"}, artifact.Set(given))
	require.Equal(t, []string{"b", "a", "b", "two words", "a"}, given, "the argument is not changed")

	many := []string{}
	for i := range 100 {
		many = append(many, fmt.Sprintf("f-%03d", 99-i))
	}
	set := artifact.Set(many)
	require.Len(t, set, artifact.MaxFingerprints)
	require.Equal(t, []string{"f-000", "f-031"}, []string{set[0], set[31]})
	require.Equal(t, set, artifact.Set(set))
}

var refused = map[string]string{
	"nothing":                      "",
	"the parent":                   "..",
	"a path that leaves the root":  "../../x",
	"an absolute path":             "/abs",
	"a backslash":                  `..\outside`,
	"an alternate stream":          "a:b",
	"a NUL":                        "a\x00b",
	"a C1 control":                 "a\u0085b",
	"a space at the start":         " a",
	"a space at the end":           "a ",
	"a wide space at the end":      "a\u3000",
	"a dot at the end":             "a.",
	"invalid UTF-8":                "a\xff",
	"101 characters":               strings.Repeat("é", 101),
	"100 characters of 3 bytes":    strings.Repeat("界", 100),
	"the folder of the artifacts":  "_stall",
	"that folder in upper case":    "_STALL",
	"a device":                     "NUL",
	"a device with an extension":   "nul.txt",
	"a device with a space":        "aux .txt",
	"a serial line":                "COM1",
	"a printer with a superscript": "lpt².log",
}

func TestInvalidStep(t *testing.T) {
	for name, step := range refused {
		t.Run(name, func(t *testing.T) {
			err := artifact.CheckStep(step)
			require.ErrorIs(t, err, artifact.ErrInvalidStep)
			require.ErrorContains(t, err, "invalid step: ")
			require.NotContains(t, err.Error(), "\x00")
			require.Less(t, len(err.Error()), 400)
		})
	}
}

func TestValidStep(t *testing.T) {
	for _, step := range []string{
		"build", "check-2", ".hidden", "a..b", "..a", "-rf", "a b", "prüfen", "_stall2", "COM", "COM10", "null", "console",
		"%2e%2e", "~", strings.Repeat("é", 100),
	} {
		t.Run(step, func(t *testing.T) {
			f := newFixture(t)
			expectUnchanged(t, f.outside)
			require.Empty(t, failures(writeAll(f.open(step))))
			require.FileExists(t, filepath.Join(f.root, step, artifact.Folder, artifact.EventFile))
		})
	}
}

// FuzzCheckStep writes under every name that is accepted. The name must be the only new entry in the root, and
// nothing may appear beside the root.
func FuzzCheckStep(f *testing.F) {
	for _, step := range refused {
		f.Add(step)
	}
	f.Add("build")
	f.Add("a..b")
	f.Fuzz(func(t *testing.T, step string) {
		if artifact.CheckStep(step) != nil {
			return
		}
		base := t.TempDir()
		root := filepath.Join(base, "root")
		d, err := artifact.Open(root, step)
		require.NoError(t, err)
		require.NoError(t, d.WriteTail(nil))
		require.NoError(t, d.Close())
		require.Equal(t, []string{"root"}, entries(t, base))
		require.Equal(t, []string{step}, entries(t, root))
		require.Equal(t, []string{artifact.Folder}, entries(t, filepath.Join(root, step)))
		require.Equal(t, []string{artifact.TailFile}, entries(t, filepath.Join(root, step, artifact.Folder)))
	})
}

func entries(t *testing.T, folder string) []string {
	t.Helper()
	read, err := os.ReadDir(folder)
	require.NoError(t, err)
	names := []string{}
	for _, entry := range read {
		names = append(names, entry.Name())
	}
	return names
}
