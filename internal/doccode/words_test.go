package doccode_test

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestWords(t *testing.T) {
	tree := fstest.MapFS{
		"a.go":            {Data: []byte("package a\ntype Stop struct{ Hold string }\ntype Hold struct{}\nfunc (h *Hold) Stop() *Stop { return nil }")},
		"b/b.go":          {Data: []byte("package b\ntype Stop int\ntype List[T any] struct{ Hold func() []a.Hold }\nfunc (l *List[T]) Hold() {}")},
		"b/b_test.go":     {Data: []byte("package b\ntype Hold int")},
		"internal/c/c.go": {Data: []byte("package c\ntype Hold int")},
	}
	require.Equal(t, []string{
		"Hold is a type in [.] and something else as Stop.Hold: rename one",
		"Hold is a type in [.] and something else as b/List.Hold: rename one",
		"Stop is a type in [. b]: give each a name of its own, or say what both mean",
	}, load(t, tree).Words(nil))
	require.Empty(t, load(t, tree).Words(map[string]string{"Hold": "a hold", "Stop": "an end"}))
}
