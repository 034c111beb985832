package storeflow

import "fmt"

// MaxRefused is the largest number of refused rows that one call reports. With more the table is at fault, not a row.
const MaxRefused = 16

// WriteEach writes a batch although the database refuses some of it: a part that is refused is written again in halves,
// down to single elements. It returns what is refused, by run. Another error ends it, and so does one refusal too many.
func WriteEach[E any](
	batch []E, runOf func(E) string, write func([]E) error, isRefusal func(error) bool,
) (map[string]error, error) {
	d := divider[E]{runOf: runOf, write: write, isRefusal: isRefusal, refused: map[string]error{}}
	return d.refused, d.divide(batch)
}

type divider[E any] struct {
	runOf     func(E) string
	write     func([]E) error
	isRefusal func(error) bool
	refused   map[string]error
}

func (d *divider[E]) divide(batch []E) error {
	err := d.write(batch)
	switch {
	case err == nil || !d.isRefusal(err):
		return err
	case len(batch) == 1:
		runID := d.runOf(batch[0])
		if d.refused[runID] = fmt.Errorf("run %s: %w", runID, err); len(d.refused) > MaxRefused {
			return fmt.Errorf("more than %d rows are refused, such as %w", MaxRefused, d.refused[runID])
		}
		return nil
	}
	half := len(batch) / 2
	if err := d.divide(batch[:half]); err != nil {
		return err
	}
	return d.divide(batch[half:])
}
