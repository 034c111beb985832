package loop

// Check says what a [Detector] with the config says of the last of the turns, for a hook that is called after each turn
// with all of a run's, and keeps nothing between. It takes it that the run was told wherever the Advice was [Ask]: two
// more rounds of the same are an [End]. A hook that can only stop a run stops it at End or, if an Ask is to mean the
// same, at all but [Go].
//
// It changes no turn. It costs a [Detector.Step] for each, so that a hook of a long run passes the last hundred or so:
// what came before is not remembered much longer. The error is that of [New]; the Advice is Go then.
func Check(turns [][]Step, cfg Config) (Verdict, error) {
	last := Verdict{Advice: Go}
	d, err := New(cfg)
	if err != nil {
		return last, err
	}
	for _, turn := range turns {
		if last = d.Step(turn...); last.Advice == Ask {
			d.Delivered()
		}
	}
	return last, nil
}
