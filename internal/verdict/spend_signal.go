package verdict

// take notes a signal about spend. A limit that these limits do not have is passed over.
func (s *Spend) take(ladders Ladders, signal Signal) {
	switch signal.Kind {
	case SignalAdmit:
		s.admit(signal)
	case SignalSettle:
		if most, open := s.open[signal.Serial]; open {
			s.Settle(&most, &signal.Use)
			delete(s.open, signal.Serial)
		}
	case SignalVoid:
		if most, open := s.open[signal.Serial]; open {
			s.Void(&most)
			delete(s.open, signal.Serial)
		}
	case SignalLoop:
		s.CountLoops()
		s.Looped(signal.Count, signal.Key, signal.Rung > 0)
	default:
		s.spent(ladders, signal)
	}
}

// spent notes what was used before an attach, or by others since.
func (s *Spend) spent(ladders Ladders, signal Signal) {
	if signal.Of.Kind == KindLoop {
		s.CountLoops()
	}
	i := s.find(signal.Of)
	if i < 0 {
		return
	}
	s.Learn(i, signal.Count)
	if signal.Rung > 0 || signal.Warned > 0 || signal.Wrapped || signal.More > 0 {
		s.Restore(i, signal.More, signal.Warned, signal.Wrapped, ladders.StoodOn(signal.Of.Kind.Limit(), signal.Rung))
	}
}

// admit admits a call, or refuses it. One that was not made, because it was refused when the trace was recorded, uses
// nothing if it fits here.
func (s *Spend) admit(signal Signal) {
	i := s.Refuses(&signal.Use)
	if i < 0 {
		i = s.refusesWithAll(&signal.Use)
	}
	if i >= 0 {
		s.Refused(i, &signal.Use)
		if !s.ObserveOnly {
			return
		}
	}
	if signal.Refused {
		return
	}
	if s.open == nil {
		s.open = map[int]Use{}
	}
	s.AdmitAll(&signal.Use)
	s.open[signal.Serial] = signal.Use
}

// refusesWithAll returns the index of the first limit in which a call does not fit beside what all have used, or -1.
// There is no store to ask, which would be asked when the call fits in what this process has used.
func (s *Spend) refusesWithAll(most *Use) int {
	for i := range s.Limits {
		limit, count := &s.Limits[i], &s.Counts[i]
		n := limit.of(most)
		if n == 0 {
			continue
		}
		around := AddCount(AddCount(count.Used, count.Around), count.Admitted.Count())
		if limit.Kind.adds() && !Fits(n, count.open(limit), around) {
			return i
		}
	}
	return -1
}

func (s *Spend) extend(signal Signal) {
	if i := s.find(signal.Of); i >= 0 {
		s.Extend(i, signal.More)
	}
}
