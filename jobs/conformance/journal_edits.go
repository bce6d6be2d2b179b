package conformance

import (
	"pgregory.net/rapid"

	"syncd/jobs"
)

// edits are the settings that a history's flows had at some time. What was done
// under one of them stays so when it is edited away.
type edits struct {
	// rename is drawn at the beginning: some changes of key are renamings.
	rename bool
	// ignored: deletions were not passed on.
	ignored bool
	// kept: what vanished was left.
	kept bool
	// left: what was missing in the target was left so.
	left bool
}

// choices are the values that a setting can be given in a history.
func (h *history) choices(setting string) []string {
	switch setting {
	case "on_rename":
		if h.two {
			return []string{"recreate"} // one flow's refusal would leave the other's record behind
		}
		if h.renames() {
			return []string{"rename", "recreate", "refuse"}
		}
		return []string{"recreate", "refuse"}
	case "on_delete":
		if h.two {
			return []string{"ignore"} // one flow would remove what the other wants
		}
		if h.renames() {
			return []string{"delete"}
		}
		return []string{"ignore", "delete"}
	case "on_vanish":
		return []string{"gone", "keep"}
	default: // on_missing
		return []string{"recreate", "leave", "dead"}
	}
}

// edit is an operator who changes what a flow says and reloads. What is under way
// ends under what the flow said before.
func (h *history) edit() {
	setting := rapid.SampledFrom([]string{"on_rename", "on_rename", "on_delete", "on_vanish", "on_missing"}).Draw(h.T, "setting")
	h.set(h.one("flow of source").flow, setting, rapid.SampledFrom(h.choices(setting)).Draw(h.T, "value"))
}

// set gives a flow another setting.
func (h *history) set(old *jobs.Flow, setting, value string) {
	f := *old
	switch setting {
	case "on_rename":
		f.OnRename = value
	case "on_delete":
		f.OnDelete = value
	case "on_vanish":
		f.OnVanish = value
	default:
		f.OnMissing = value
	}
	h.flows[f.Name] = &f
	for _, src := range h.sources {
		if src.flow == old {
			src.flow = &f
		}
	}
	h.note()
}

// note keeps what the flows say now.
func (h *history) note() {
	for _, f := range h.flows {
		h.ever.ignored = h.ever.ignored || f.OnDelete == "ignore"
		h.ever.kept = h.ever.kept || f.OnVanish == "keep"
		h.ever.left = h.ever.left || f.OnMissing == "leave"
	}
}

// refusal reports whether a row is a change of key that its flow refuses by now.
func (h *history) refusal(row *jobs.Row) bool {
	return row.State == jobs.Dead && row.Reason == jobs.ReasonRenamed && h.flows[row.Flow].OnRename == "refuse"
}

// missed reports whether a row's record is missing in the target, and the flow
// says, or said when that was found, that it stays so.
func (h *history) missed(row *jobs.Row) bool {
	switch {
	case row.LastClass != "missing" || row.Gone:
		return false
	case row.State == jobs.Done:
		return row.Reason == jobs.ReasonIgnored && h.ever.left
	default:
		return row.State == jobs.Dead && h.flows[row.Flow].OnMissing == "dead"
	}
}

// leftOver reports whether a flow has left the record of a key in the target that
// no source has: deletions were not passed on, or what vanished was kept.
func (h *history) leftOver(row *jobs.Row) bool {
	return h.ever.ignored && row.Gone && row.Reason == jobs.ReasonIgnored || h.ever.kept && !row.Gone && row.SourceID == ""
}
