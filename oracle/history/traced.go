package history

import (
	"encoding/json"
	"slices"
)

// TracedByBoth is a traced signal without what the frozen package does not tell: versions, budgets of layers, whether
// there is a Busy, that a stop was taken back, and from where in the microsecond in which a layer began it takes part
// in a pause of before. It reports false for a signal that only one of the packages traces: what Busy denied, loops,
// what others use, and refused calls, which the live one traces where a store refused them, and not for runs that were
// not asked.
func TracedByBoth(signal []byte) (text string, both bool) {
	var s map[string]any
	if json.Unmarshal(signal, &s) != nil {
		return string(signal), true
	}
	kind, _ := s["kind"].(string)
	refused := s["not_made"] != nil
	switch {
	case slices.Contains([]string{"not_busy", "loop", "spent"}, kind), kind == "admit" && refused:
		return "", false
	case refused && kind != "extend", refused && s["more"] == nil:
		delete(s, "usage")
	case kind == "attach":
		delete(s, "busy")
	}
	if from, _ := s["from"].(float64); from < 1000 {
		delete(s, "from")
	}
	delete(s, "not_made")
	delete(s, "version")
	delete(s, "budget")
	kept, err := json.Marshal(s)
	return string(kept), err == nil
}
