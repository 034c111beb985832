package usage

// usageOf turns the counts of the API's wire format into classes that add up.
func (c *counts) usageOf(api API) Usage {
	u := Usage{Tools: c.tools, Tier: c.tier.String()}
	switch api {
	case Anthropic:
		c.anthropic(&u)
	case Gemini:
		c.gemini(&u)
	default:
		c.openAI(&u)
	}
	return u
}

// anthropic: the classes of input add up. What was written to a cache without a lifetime stays without one. Calls that
// the API made besides, such as one to compact the conversation, come on top.
func (c *counts) anthropic(u *Usage) {
	u.Input, u.CacheRead = c.count[slotInput], c.count[slotCacheRead]
	u.CacheWrite5m, u.CacheWrite1h = c.count[slotCacheWrite5m], c.count[slotCacheWrite1h]
	u.CacheWrite = less(c.count[slotCacheWrite], u.CacheWrite5m, u.CacheWrite1h)
	u.Input = sum(u.Input, c.count[slotRoundInput])
	u.Output, u.Reasoning = sum(c.count[slotOutput], c.count[slotRoundOutput]), c.count[slotReasoning]
	if c.speed.String() == "fast" {
		u.Tier = "fast"
	}
}

// openAI: what is cached is inside the prompt, and reasoning inside the output. Compatible servers leave reasoning out
// of it, and have it in the total only.
func (c *counts) openAI(u *Usage) {
	u.CacheRead, u.CacheWrite = c.count[slotCacheRead], c.count[slotCacheWrite]
	u.Input = less(c.count[slotInput], u.CacheRead, u.CacheWrite)
	u.Output, u.Reasoning = c.count[slotOutput], c.count[slotReasoning]
	u.InputBy[Audio], u.InputBy[Image] = c.count[slotInputAudio], c.count[slotInputImage]
	u.OutputBy[Audio], u.OutputBy[Image] = c.count[slotOutputAudio], c.count[slotOutputImage]
	c.addUnnamed(u)
}

// gemini: what is cached is inside the prompt; thoughts, and what tools gave the model, come on top.
func (c *counts) gemini(u *Usage) {
	u.CacheRead = c.count[slotCacheRead]
	u.Input = sum(less(c.count[slotInput], u.CacheRead), c.count[slotToolInput])
	u.Output = sum(c.count[slotOutput], c.count[slotThoughts])
	u.Reasoning = c.count[slotThoughts]
	u.Tools[GoogleSearch] = sum(u.Tools[GoogleSearch], c.query)
	prompt, cached, tool := c.by[0], c.by[slotCacheReadBy-slotInputBy], c.by[slotToolInputBy-slotInputBy]
	u.OutputBy, u.CacheReadBy = c.by[slotOutputBy-slotInputBy], cached
	for m := range modalities {
		u.InputBy[m] = sum(less(prompt[m], cached[m]), tool[m])
	}
	c.addUnnamed(u)
}

// addUnnamed adds what the API's total has beyond its parts to the output, the dearer class.
func (c *counts) addUnnamed(u *Usage) {
	u.Output = sum(u.Output, less(c.count[slotTotal], u.TokensIn(), u.Output))
}
