package watchdogadk

import (
	"google.golang.org/genai"

	"google.golang.org/adk/v2/model"

	"github.com/seed62658d38/watchdog/internal/adapter"
)

// measured returns the size of a request. A byte is at least a token, also of data that is in the request; a file that
// it only names counts as nothing.
func measured(req *model.LLMRequest) adapter.ModelRequest {
	size := adapter.ModelRequest{Model: req.Model}
	for _, c := range req.Contents {
		measureContent(&size, c)
	}
	if cfg := req.Config; cfg != nil {
		size.MaxOutput = int64(cfg.MaxOutputTokens) * int64(max(cfg.CandidateCount, 1))
		measureContent(&size, cfg.SystemInstruction)
		for _, t := range cfg.Tools {
			size.Parts, size.Bytes = size.Parts+1, size.Bytes+len(text(t))
		}
		size.Bytes += len(text(cfg.ResponseSchema)) + len(text(cfg.ResponseJsonSchema))
	}
	return size
}

func measureContent(size *adapter.ModelRequest, c *genai.Content) {
	if c == nil {
		return
	}
	for _, p := range c.Parts {
		if p != nil {
			size.Parts, size.Bytes = size.Parts+1, size.Bytes+measurePart(p)
		}
	}
}

func measurePart(p *genai.Part) int {
	bytes := len(p.Text) + len(p.ThoughtSignature)
	if p.InlineData != nil {
		bytes += len(p.InlineData.Data)
	}
	if p.FunctionCall != nil {
		bytes += len(text(p.FunctionCall))
	}
	if p.FunctionResponse != nil {
		bytes += len(text(p.FunctionResponse))
	}
	if p.ExecutableCode != nil {
		bytes += len(p.ExecutableCode.Code)
	}
	if p.CodeExecutionResult != nil {
		bytes += len(p.CodeExecutionResult.Output)
	}
	return bytes
}
