package loop_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/loop"
)

// A trace is what a run did, turn by turn.
type trace struct {
	Name    string `json:"name"`
	What    string `json:"what"`
	From    string `json:"from"`
	FoundBy int    `json:"found_by"` // a loop's turn by which the detector has to ask
	turns   []traceTurn
}

type traceTurn struct {
	Steps   []traceStep `json:"steps"`
	Restart bool        `json:"restart"` // before the turn
	Times   int         `json:"times"`
	Count   struct {
		From int `json:"from"`
		To   int `json:"to"`
	} `json:"count"`
	declared []loop.Step // with their classes
}

type traceStep struct {
	Tool    string          `json:"tool"`
	Class   loop.Class      `json:"class"`
	Input   json.RawMessage `json:"input"`
	Outcome json.RawMessage `json:"outcome"`
	Gap     float64         `json:"gap_seconds"`
	Refused bool            `json:"refused"`
	Retry   bool            `json:"retry"`
}

// traces reads a set of testdata.
func traces(t *testing.T, set string) (all []*trace) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", set+".jsonl"))
	require.NoError(t, err)
	named := map[string]*trace{}
	for line := range bytes.Lines(text) {
		if bytes.HasPrefix(line, []byte(`{"name":`)) {
			begun := &trace{}
			require.NoError(t, strictly(line, begun), "%s", line)
			require.NotContains(t, named, begun.Name)
			named[begun.Name] = begun
			all = append(all, begun)
			continue
		}
		var turn traceTurn
		require.NoError(t, strictly(line, &turn), "%s", line)
		require.NotEmpty(t, turn.Steps, "%s", line)
		require.NotEmpty(t, all, "a turn before a name")
		last := all[len(all)-1]
		for _, turn := range turn.expand() {
			turn.read(t)
			last.turns = append(last.turns, turn)
		}
	}
	for _, read := range all {
		require.NotEmpty(t, read.Name)
		require.NotEmpty(t, read.What, read.Name)
		require.NotEmpty(t, read.From, read.Name)
		require.NotEmpty(t, read.turns, read.Name)
	}
	return all
}

func strictly(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// expand returns the turns that one line stands for. A restart is before the first.
func (turn traceTurn) expand() (all []traceTurn) {
	for range max(turn.Times, 1) {
		all = append(all, turn)
	}
	if turn.Count.To > 0 {
		all = nil
		for n := turn.Count.From; n <= turn.Count.To; n++ {
			all = append(all, turn.numbered(n))
		}
	}
	for i := range all[1:] {
		all[1+i].Restart = false
	}
	return all
}

func (turn traceTurn) numbered(n int) traceTurn {
	number := []byte(strconv.Itoa(n))
	turn.Steps = slices.Clone(turn.Steps)
	for i := range turn.Steps {
		s := &turn.Steps[i]
		s.Input = bytes.ReplaceAll(s.Input, []byte("{n}"), number)
		s.Outcome = bytes.ReplaceAll(s.Outcome, []byte("{n}"), number)
	}
	return turn
}

// read keeps the steps of the turn.
func (turn *traceTurn) read(t *testing.T) {
	t.Helper()
	for _, s := range turn.Steps {
		turn.declared = append(turn.declared, loop.Step{
			Tool: s.Tool, Class: s.Class, Input: plain(t, s.Input), Outcome: plain(t, s.Outcome),
			Gap: time.Duration(s.Gap * float64(time.Second)), Refused: s.Refused, Retry: s.Retry,
		})
	}
}

func (turn *traceTurn) steps(classes bool) []loop.Step {
	if classes {
		return turn.declared
	}
	all := slices.Clone(turn.declared)
	for i := range all {
		all[i].Class = ""
	}
	return all
}

// plain returns the text of a JSON string, and other JSON as it is.
func plain(t *testing.T, value json.RawMessage) []byte {
	t.Helper()
	if len(value) == 0 || value[0] != '"' {
		return value
	}
	var text string
	require.NoError(t, json.Unmarshal(value, &text))
	return []byte(text)
}

// A finding is what the detector said to a trace. The numbers are turns, 0 where it never did.
type finding struct {
	asked, ended int
	rule         loop.Rule
}

// judge gives a trace to a detector. The run is told at once whenever the detector asks.
func (read *trace) judge(t *testing.T, classes bool) (f finding) {
	t.Helper()
	d := newDetector(t, loop.Config{})
	for i, turn := range read.turns {
		if turn.Restart {
			d = restart(t, d, loop.Config{})
		}
		f.step(d, i, turn.steps(classes))
	}
	return f
}

// step gives a turn, counted from 0, to a detector, and tells the run at once if it asks.
func (f *finding) step(d *loop.Detector, turn int, steps []loop.Step) {
	switch v := d.Step(steps...); {
	case v.Advice == loop.End && f.ended == 0:
		f.ended, f.rule = turn+1, v.Rule
	case v.Advice == loop.Ask:
		d.Delivered()
		if f.asked == 0 {
			f.asked, f.rule = turn+1, v.Rule
		}
	}
}

func restart(t *testing.T, d *loop.Detector, config loop.Config) *loop.Detector {
	t.Helper()
	state, err := d.MarshalBinary()
	require.NoError(t, err)
	restored := newDetector(t, config)
	require.NoError(t, restored.UnmarshalBinary(state))
	return restored
}
