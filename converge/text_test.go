package converge_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/converge"
	"github.com/seed62658d38/watchdog/internal/golden"
)

func TestText(t *testing.T) {
	var many []string
	for i := range 14 {
		many = append(many, fmt.Sprintf("test/failed:case-%02d", i))
	}
	for name, test := range map[string]struct {
		config converge.Config
		sets   [][]string
	}{
		"once":       {sets: [][]string{a}},
		"two":        {sets: [][]string{both}},
		"moved":      {sets: [][]string{a, a}},
		"given_up":   {sets: [][]string{a, a, a, a, a, a}},
		"many":       {sets: [][]string{many}},
		"ten":        {sets: [][]string{many[:10]}},
		"oscillates": {config: converge.Config{Memory: 2}, sets: [][]string{a, both, a}},
		"own_stage": {
			config: converge.Config{Stages: []converge.Stage{
				{Name: "alone", Instructions: "First line.\nSecond line.\n"},
			}},
			sets: [][]string{b},
		},
		"no_instructions": {config: converge.Config{Stages: []converge.Stage{{Name: "alone"}}}, sets: [][]string{b, b}},
	} {
		t.Run(name, func(t *testing.T) {
			golden.Compare(t, "testdata/text_"+name+".golden", observe(t, newTracker(t, test.config), test.sets...).Text())
		})
	}
	t.Run("after an iteration that ended well the text is empty", func(t *testing.T) {
		require.Empty(t, observe(t, newTracker(t, converge.Config{}), a, well).Text())
	})
}
