//go:build linux

package soak_test

import (
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
	"testing"
	"text/tabwriter"
	"time"

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
