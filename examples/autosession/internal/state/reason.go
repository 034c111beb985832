package state

import "github.com/seed62658d38/watchdog"

// The codes that this host gives beside the watchdog's. [watchdog.Watchdog.Cancel] takes them.
const (
	// InterviewMaxRoundsExhausted says that an interview asked as many rounds as it may.
	InterviewMaxRoundsExhausted watchdog.StopReason = "interview_max_rounds_exhausted"
	// InterviewUnsafeGapsRemain says that an interview left questions open that must not be.
	InterviewUnsafeGapsRemain watchdog.StopReason = "interview_unsafe_gaps_remain"
	// InterviewPhaseDeadline says that the interview ran past its own deadline.
	InterviewPhaseDeadline watchdog.StopReason = "interview_phase_deadline"
	// IterationTimeout says that one iteration of a loop took too long.
	IterationTimeout watchdog.StopReason = "iteration_timeout"
	// WallClockExhausted says that the loop used up its time between two iterations. It is the host's check at a
	// boundary; [watchdog.WallClockExceeded] is the watchdog's, which needs none.
	WallClockExhausted watchdog.StopReason = "wall_clock_exhausted"
	// OscillationDetected says that a loop went back and forth between the same states.
	OscillationDetected watchdog.StopReason = "oscillation_detected"
	// GradeRegressing says that a loop's results got worse from one iteration to the next.
	GradeRegressing watchdog.StopReason = "grade_regressing"
	// MaxGenerationsReached says that a loop ran as many generations as it may.
	MaxGenerationsReached watchdog.StopReason = "max_generations_reached"
)
