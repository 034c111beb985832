package redact

import (
	"strings"

	"github.com/spf13/viper"
	"github.com/zricethezav/gitleaks/v8/config"
	"github.com/zricethezav/gitleaks/v8/detect"
	"github.com/zricethezav/gitleaks/v8/report"
)

// decodeDepth is how often gitleaks decodes what it decoded, the default of its command.
const decodeDepth = 5

// patterns are those of gitleaks. Its detector is used by many goroutines at once in its own command too.
type patterns struct {
	detector *detect.Detector
}

// newPatterns reads the patterns as detect.NewDetectorDefaultConfig does, but not by way of the one viper of the process, which is the host's.
func newPatterns() (*patterns, error) {
	reader := viper.New()
	reader.SetConfigType("toml")
	if err := reader.ReadConfig(strings.NewReader(config.DefaultConfig)); err != nil {
		return nil, err
	}
	var raw config.ViperConfig
	if err := reader.Unmarshal(&raw); err != nil {
		return nil, err
	}
	rules, err := raw.Translate()
	if err != nil {
		return nil, err
	}
	forgetPaths(rules.Rules)
	detector := detect.NewDetector(rules)
	detector.MaxDecodeDepth = decodeDepth
	detector.IgnoreGitleaksAllow = true // the output of a command does not decide what is kept of it
	return &patterns{detector: detector}, nil
}

// forgetPaths has the rules that ask for a file's name too go by the text alone: output has no name.
func forgetPaths(rules map[string]config.Rule) {
	for id, rule := range rules {
		if rule.Path != nil && rule.Regex != nil {
			rule.Path = nil
			rules[id] = rule
		}
	}
}

func (p *patterns) find(text string) []span {
	var found []span
	secrets := make(map[string]string)
	for _, finding := range p.detector.DetectString(text) {
		if decoded(finding) {
			found = append(found, place(text, finding))
		} else if secret := p.secret(finding); secret != "" {
			secrets[secret] = finding.RuleID
		}
	}
	return append(found, occurrences(text, secrets)...)
}

// secret is what a finding has to hide. Of several groups gitleaks takes the first that is not empty, which may be as little as the header of a token: then
// it is the whole match.
func (p *patterns) secret(finding report.Finding) string {
	rule := p.detector.Config.Rules[finding.RuleID]
	if rule.SecretGroup == 0 && rule.Regex.NumSubexp() > 1 {
		return finding.Match
	}
	return finding.Secret
}

// decoded reports whether the finding is in what was decoded, so that its text is not in the input.
func decoded(finding report.Finding) bool {
	for _, tag := range finding.Tags {
		if strings.HasPrefix(tag, "decode-depth:") {
			return true
		}
	}
	return false
}

// place is where a finding is: gitleaks says lines from 0 and columns from 1, where the break before a line is its column 0 and the first line has none.
// One that ends on a last line without a break has no end there: it is taken to the end of the text.
func place(text string, finding report.Finding) span {
	start := lineStart(text, finding.StartLine) + finding.StartColumn - 1
	end := lineStart(text, finding.EndLine) + finding.EndColumn
	if end <= start {
		end = len(text)
	}
	return span{start, end, finding.RuleID}
}

// lineStart is where gitleaks counts the columns of a line from: the break before it.
func lineStart(text string, line int) int {
	at, from := 0, 0
	for range line {
		next := strings.IndexByte(text[from:], '\n')
		if next < 0 {
			break
		}
		at = from + next
		from = at + 1
	}
	return at
}
