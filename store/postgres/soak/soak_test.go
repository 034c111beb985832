//go:build linux

package soak_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/session"
)

// TestSoak is the soak. The flags say in which form.
func TestSoak(t *testing.T) {
	if *lengthFlag == 0 {
		t.Skip("runs in long tests, and with -length")
	}
	seed := drawSeed()
	t.Logf("seed %d; repeat it with -seed %d -length %v -runs %d", seed, seed, *lengthFlag, *runsFlag)
	s := startStorm(t, seed)
	faults := s.blow(seed)
	began := sinceBoot()
	s.settle()
	longest := worst(setBack(faults))
	found := s.await(began + longest)
	t.Logf("all was settled %v after the last fault; the longest time is %v", sinceBoot()-began, longest)
	s.report(found)
	s.leave()
}

// startStorm starts the servers, the hosts and the sweepers.
func startStorm(t *testing.T, seed uint64) *storm {
	t.Helper()
	s := &storm{t: t, folder: folder(t, seed), cluster: startCluster(t), counts: map[string]int{}}
	require.NoError(t, os.MkdirAll(s.folder, 0o700))
	for i := range hostCount {
		m, err := s.newMember(job{
			Host: fmt.Sprint("host-", i+1), Runs: *runsFlag, StartedAt: time.Now(), Seed: seed + uint64(i)<<32,
		})
		require.NoError(t, err)
		s.hosts = append(s.hosts, m)
	}
	for i := range sweeperCount {
		m, err := s.newMember(job{Host: fmt.Sprint("sweeper-", i+1), Sweeper: true})
		require.NoError(t, err)
		s.sweepers = append(s.sweepers, m)
	}
	return s
}

// blow draws the faults from the seed, carries them out, and returns them.
func (s *storm) blow(seed uint64) (all []fault) {
	s.began = sinceBoot()
	var raging sync.WaitGroup
	for i, g := range groups {
		if g.name == "clock" && s.cluster.clocks.library == "" {
			continue
		}
		faults := chosen(g.draw(rand.New(rand.NewPCG(seed, uint64(i))), *lengthFlag))
		all = append(all, faults...)
		raging.Go(func() { s.rage(g, faults) })
	}
	raging.Wait()
	time.Sleep(s.began + *lengthFlag - sinceBoot())
	return sorted(all)
}

// chosen returns the faults that the flag chooses. The schedule of those stays as it is.
func chosen(all []fault) []fault {
	only := regexp.MustCompile(*onlyFlag)
	return slices.DeleteFunc(all, func(f fault) bool { return !only.MatchString(f.name) })
}

// settle kills a host for good, and has the others begin nothing new.
func (s *storm) settle() {
	require.NoError(s.t, s.cluster.checkClock())
	s.hosts[0].process().kill()
	for _, m := range s.hosts[1:] {
		require.NoError(s.t, m.process().finish())
	}
}

// await judges until nothing is wrong that time can mend, or until the time is over.
func (s *storm) await(until time.Duration) judgement {
	for {
		e, err := s.evidence()
		require.NoError(s.t, err)
		if found := judge(e); !found.pending() || sinceBoot() > until {
			return found
		}
		time.Sleep(promise / 2) // no event tells that a row has changed
	}
}

// evidence reads the database first, so that a run that ends meanwhile is not taken for one that went on.
func (s *storm) evidence() (e evidence, err error) {
	if e.stored, err = readDatabase(s.cluster.dsn()); err != nil {
		return e, err
	}
	var errHosts, errSweepers error
	e.hosts, errHosts = recordsOf(s.hosts)
	e.sweepers, errSweepers = recordsOf(s.sweepers)
	s.mu.Lock()
	defer s.mu.Unlock()
	e.outages, e.locks = slices.Clone(s.outages), slices.Clone(s.locks)
	return e, errors.Join(errHosts, errSweepers)
}

func recordsOf(members []*member) (all []*processRecord, err error) {
	for _, m := range members {
		own, err := m.records()
		if err != nil {
			return nil, err
		}
		all = append(all, own...)
	}
	return all, nil
}

// report prints what was done and what is wrong, and fails the test if anything is.
func (s *storm) report(found judgement) {
	e, err := s.evidence()
	require.NoError(s.t, err)
	s.t.Logf("\n%s", s.table(e, found))
	s.keepEvidence(found)
	for _, wrong := range wrongs {
		all := found[wrong]
		if len(all) > 0 {
			s.t.Errorf("%s: %d, such as\n\t%s", wrong, len(all), strings.Join(all[:min(len(all), 5)], "\n\t"))
		}
	}
}

// keepEvidence writes all that is wrong, and the tables, beside the journals.
func (s *storm) keepEvidence(found judgement) {
	tables, err := dumpTables(s.cluster.dsn())
	require.NoError(s.t, err)
	for name, content := range map[string]any{"wrong.json": found, "tables.json": tables} {
		text, err := json.MarshalIndent(content, "", "\t")
		require.NoError(s.t, err)
		require.NoError(s.t, os.WriteFile(filepath.Join(s.folder, name), text, 0o600))
	}
}

// table has the counts.
func (s *storm) table(e evidence, found judgement) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	line := func(name string, count int) { fmt.Fprintf(w, "%d\t  %s\n", count, name) }
	causes, guarded, dead := map[string]int{}, 0, 0
	for _, p := range e.hosts {
		dead += len(p.dead())
		for _, one := range p.tenures() {
			guarded++
			if one.cause != "" {
				causes[one.cause]++
			}
		}
	}
	line("runs", len(e.rows))
	line("times a run was guarded", guarded)
	line("windows with an end", len(e.ends))
	for _, cause := range slices.Sorted(maps.Keys(causes)) {
		line("ended as "+cause, causes[cause])
	}
	line("stretches in which a host was dead", dead)
	for _, name := range slices.Sorted(maps.Keys(s.counts)) {
		line(name, s.counts[name])
	}
	line("answers lost after commit or before", s.cluster.lostAnswers())
	line(forgiven, len(found[forgiven]))
	for _, wrong := range wrongs {
		line("WRONG: "+wrong, len(found[wrong]))
	}
	w.Flush()
	return text.String()
}

// leave ends all processes in order. A host that closes its runs leaves no row active.
func (s *storm) leave() {
	var all sync.WaitGroup
	for _, m := range slices.Concat(s.hosts[1:], s.sweepers) {
		all.Go(func() { assert.NoError(s.t, m.process().leave()) })
	}
	all.Wait()
	found, err := readDatabase(s.cluster.dsn())
	require.NoError(s.t, err)
	open := 0
	for run, r := range found.rows {
		if r.status == session.Active && !strings.HasPrefix(run, s.hosts[0].job.Host) {
			open++
		}
	}
	require.Zero(s.t, open, "rows that are active after their hosts have closed all runs")
}

// A processRecord is what is known of a process: its journal, and what the parent did to it.
type processRecord struct {
	name    string
	entries []entry
	away    []span        // it was stopped, or cut off from the database
	late    []span        // it could write, and may not have heard of cancels
	stray   []span        // what it wrote was lost: a server acknowledged it that was no primary any more
	killed  time.Duration // or has ended; 0 if it lives
}

// unable returns when the process could not write: what the parent did, when it did not get to run, and when its
// witness could not.
func (p *processRecord) unable() []span {
	all := slices.Clone(p.away)
	for _, e := range p.entries {
		if e.What == unwritten {
			all = append(all, span{e.Since, e.At})
		}
	}
	for i := 1; i < len(p.entries); i++ {
		gap := span{p.entries[i-1].At, p.entries[i].At}
		if gap.length() > promise {
			all = append(all, gap)
		}
	}
	return joined(all, promise) // a moment between two faults is too short to write in
}

// dead returns when the process could be seen to be dead: it was not able to write for three promises, and the last
// time that it did can be a promise before that.
func (p *processRecord) dead() (all []span) {
	for _, s := range p.unable() {
		if s.length() > death {
			all = append(all, span{s.from + death - promise, s.to})
		}
	}
	return all
}

// astray reports whether what the process was told in a span can be lost. An answer can be noted late.
func (p *processRecord) astray(in span) bool {
	return slices.ContainsFunc(p.stray, func(s span) bool { return in.touches(span{s.from, s.to + doubt}) })
}

// A tenure is the time in which a process guards a run.
type tenure struct {
	of      *processRecord
	run     string
	window  time.Time
	life    span // to the end of the run or of the process, or to the last entry
	open    bool // it lasts
	cause   string
	stored  string         // how the process was told that the window ended: completed or recorded
	told    time.Duration  // when it was
	own     []span         // its signals and holds
	cohort  *[]entry       // the signals of its cohort, nil if it is in none
	holding *time.Duration // since when
}

// tenures returns those of a process, in the order of their beginnings.
func (p *processRecord) tenures() (all []*tenure) {
	current := map[string]*tenure{}
	cohorts := map[string]*[]entry{}
	for _, e := range p.entries {
		if e.What == unwritten {
			continue
		}
		if e.Run == "" {
			if cohorts[e.Cohort] == nil {
				cohorts[e.Cohort] = &[]entry{}
			}
			*cohorts[e.Cohort] = append(*cohorts[e.Cohort], e)
			continue
		}
		if e.What == attached {
			if e.Cohort != "" && cohorts[e.Cohort] == nil {
				cohorts[e.Cohort] = &[]entry{}
			}
			t := &tenure{of: p, run: e.Run, window: e.Window, life: span{from: e.At}, open: true, cohort: cohorts[e.Cohort]}
			current[e.Run] = t
			all = append(all, t)
		} else if t := current[e.Run]; t != nil {
			t.note(e)
		}
	}
	for _, t := range all {
		t.close(p)
	}
	return all
}

// note notes an entry after the first.
func (t *tenure) note(e entry) {
	switch e.What {
	case signalled:
		t.own = append(t.own, span{e.At, e.At})
	case held:
		t.holding = &e.At
	case released:
		t.release(e.At)
	case completed, recorded:
		t.stored, t.told = e.What, e.At
	case ended:
		t.release(e.At)
		t.open, t.life.to, t.cause = false, e.At, e.Cause
	}
}

func (t *tenure) release(at time.Duration) {
	if t.holding != nil {
		t.own, t.holding = append(t.own, span{*t.holding, at}), nil
	}
}

// close ends what lasted until the process ended, or until its last entry.
func (t *tenure) close(p *processRecord) {
	if !t.open {
		return
	}
	t.life.to = p.killed
	if p.killed == 0 {
		t.life.to = p.entries[len(p.entries)-1].At
	}
	t.release(t.life.to)
	t.open = p.killed == 0
}

// silences returns when the run had been silent for longer than the threshold. A run that was never signalled is not
// silent.
func (t *tenure) silences() (all []span) {
	signs := slices.Clone(t.own)
	if t.cohort != nil {
		for _, e := range *t.cohort {
			if e.At >= t.life.from && e.At <= t.life.to {
				signs = append(signs, span{e.At, e.At})
			}
		}
	}
	slices.SortFunc(signs, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	for i, s := range signs {
		until := t.life.to
		if i+1 < len(signs) {
			until = signs[i+1].from
		}
		if until-s.to > threshold {
			all = append(all, span{s.to + threshold, until})
		}
	}
	return all
}

// astray reports whether the beginning of the tenure, or its end, can be lost.
func (t *tenure) astray() bool {
	return t.of.astray(span{t.life.from, t.life.from}) || t.of.astray(span{t.life.to, max(t.life.to, t.told)})
}

// mayBeSwept reports whether a sweeper could rightly have ended the run at some time in a span: its process was dead,
// or the run was silent for too long, or it did not guard the run for all of the span. What keeps all from writing the
// row while its process is dead, such as a stranger's lock, keeps the process from claiming it back until it ends.
func (t *tenure) mayBeSwept(in span, barred []span) bool {
	if t.life.from > in.from || t.life.to < in.to || slices.ContainsFunc(t.silences(), in.touches) {
		return true
	}
	return slices.ContainsFunc(t.of.dead(), func(dead span) bool {
		for _, b := range barred {
			if b.touches(dead) {
				dead.to = max(dead.to, b.to)
			}
		}
		return in.touches(dead)
	})
}

// sinceBoot returns how long ago the machine was started. All processes of the machine agree on it, and nobody can set
// it.
func sinceBoot() time.Duration {
	const clockBoottime = 7
	var t syscall.Timespec
	_, _, failed := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&t)), 0)
	if failed != 0 {
		panic("read the boot clock: " + failed.Error())
	}
	return time.Duration(t.Nano())
}

// A span is a stretch of time since boot.
type span struct{ from, to time.Duration }

func (s span) length() time.Duration { return s.to - s.from }

// touches reports whether the spans have a moment in common.
func (s span) touches(other span) bool { return s.from <= other.to && other.from <= s.to }

// joined returns the spans in order, with those in one that are less than a gap apart.
func joined(spans []span, gap time.Duration) (all []span) {
	spans = slices.SortedFunc(slices.Values(spans), func(a, b span) int { return int(a.from - b.from) })
	for _, s := range spans {
		if last := len(all) - 1; last >= 0 && s.from-all[last].to < gap {
			all[last].to = max(all[last].to, s.to)
		} else {
			all = append(all, s)
		}
	}
	return all
}
