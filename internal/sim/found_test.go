package sim_test

import "testing"

// TestFound runs the seeds that have found a bug. A change of the steps gives them another schedule: then look for a
// seed that finds the bug in the code of before, and put it here.
func TestFound(t *testing.T) {
	for what, seeds := range map[string][]uint64{
		"two processes with the same number of attempt run one run":               {1327, 835},
		"a row that nobody runs is interrupted, and its window has another end":   {1872, 677, 566},
		"a sweeper takes the end of a run that it had claimed for its own cancel": {1169, 297, 70},
		"an expired lease is renewed":                                             {4, 5, 8},
		"a process does not claim its rows back under another lease":              {24, 1005},
	} {
		t.Run(what, func(t *testing.T) {
			for _, seed := range seeds {
				simulate(t, seed).report(t)
			}
		})
	}
}
