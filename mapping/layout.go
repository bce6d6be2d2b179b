package mapping

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Layouts use the % directives of strftime, as jq does, but few of them and
// strictly: 31 February is an error and not 3 March.

// checkLayout accepts the directives below and refuses %Z, whose
// abbreviations are not clear.
func checkLayout(layout string) error {
	for i := 0; i < len(layout); i++ {
		if layout[i] != '%' {
			continue
		}
		if i++; i == len(layout) {
			return errors.New("the layout ends with a single %")
		}
		if layout[i] == 'Z' {
			return errors.New("%Z is not supported, because an abbreviation such as CST stands for several zones; use %z and the zone argument")
		}
		if !strings.ContainsRune("YymdeHIMSfpbBaAzsFTR%", rune(layout[i])) {
			return fmt.Errorf("the layout has the unknown directive %%%c; known are %%Y %%y %%m %%d %%e %%H %%I %%M %%S %%f %%p %%b %%B %%a %%A %%z %%s %%F %%T %%R %%%%", firstRune(layout[i:]))
		}
	}
	return nil
}

func layoutArg(v any) (string, error) {
	s, ok := v.(string)
	if !ok {
		return "", fmt.Errorf("a layout must be a string but is %s", typeName(v))
	}
	if len(s) > 200 {
		return "", errors.New("the layout is longer than 200 bytes")
	}
	return expandLayout(s), checkLayout(s)
}

// expandLayout replaces the directives that stand for several.
func expandLayout(s string) string {
	return strings.NewReplacer("%%", "%%", "%F", "%Y-%m-%d", "%T", "%H:%M:%S", "%R", "%H:%M").Replace(s)
}

// clock collects what a layout finds in a text.
type clock struct {
	text                 string
	year, month, day     int
	hour, minute, second int
	nano                 int
	afternoon            int // 0 none, 1 AM, 2 PM
	offset               time.Duration
	hasYear, hasDay      bool
	hasOffset, hasHour12 bool
	weekday              int // 1 Sunday … 7, 0 none
	unix                 *time.Time
	ownFraction          bool // %f follows, so %S leaves the fraction to it
}

var errLayout = errors.New("the time does not have the form of the layout")

// parseLayout reads text by an expanded layout; an offset or epoch in the text
// comes before zone.
func parseLayout(text, layout string, zone *time.Location) (time.Time, error) {
	c := clock{text: text, month: 1, day: 1}
	for i := 0; i < len(layout); i++ {
		if layout[i] == '%' && i+1 < len(layout) {
			i++
			c.ownFraction = strings.HasPrefix(layout[i+1:], ".%f")
			if err := c.directive(layout[i]); err != nil {
				return time.Time{}, err
			}
			continue
		}
		if c.text == "" || c.text[0] != layout[i] {
			return time.Time{}, errLayout
		}
		c.text = c.text[1:]
	}
	if c.text != "" {
		return time.Time{}, errors.New("the time has more text than the layout")
	}
	return c.instant(zone)
}

func (c *clock) directive(d byte) (err error) {
	switch d {
	case 'Y':
		c.hasYear = true
		c.year, err = c.digits(4, 4, 1, 9999)
	case 'y':
		c.hasYear = true
		if c.year, err = c.digits(2, 2, 0, 99); c.year < 69 {
			c.year += 100
		}
		c.year += 1900
	case 'm':
		c.month, err = c.digits(1, 2, 1, 12)
	case 'e', 'd':
		c.hasDay = true
		c.text = strings.TrimPrefix(c.text, " ")
		c.day, err = c.digits(1, 2, 1, 31)
	case 'b', 'B':
		c.month, err = c.name(monthNames(d == 'B'))
	case 'a', 'A':
		c.weekday, err = c.name(weekdayNames(d == 'A'))
	case 'H':
		c.hour, err = c.digits(1, 2, 0, 23)
	case 'I':
		c.hasHour12 = true
		c.hour, err = c.digits(1, 2, 1, 12)
	case 'M':
		c.minute, err = c.digits(2, 2, 0, 59)
	case 'S':
		if c.second, err = c.digits(2, 2, 0, 59); err == nil && !c.ownFraction && strings.HasPrefix(c.text, ".") {
			c.text = c.text[1:]
			err = c.fraction()
		}
	case 'f':
		err = c.fraction()
	case 'p':
		c.afternoon, err = c.name([]string{"am", "pm"})
	case 'z':
		c.hasOffset = true
		err = c.zoneOffset()
	case 's':
		err = c.epoch()
	case '%':
		if !strings.HasPrefix(c.text, "%") {
			return errLayout
		}
		c.text = c.text[1:]
	}
	return err
}

// digits reads from least to most digits as a number between low and high.
func (c *clock) digits(least, most, low, high int) (int, error) {
	n, i := 0, 0
	for i < len(c.text) && i < most && isDigit(c.text[i]) {
		n = n*10 + int(c.text[i]-'0')
		i++
	}
	if i < least || n < low || n > high {
		return 0, errLayout
	}
	c.text = c.text[i:]
	return n, nil
}

// fraction reads the digits after a second's point; what is beyond
// nanoseconds is dropped.
func (c *clock) fraction() error {
	i, unit := 0, 100_000_000
	for c.nano = 0; i < len(c.text) && isDigit(c.text[i]); i++ {
		c.nano += int(c.text[i]-'0') * unit
		unit /= 10
	}
	if i == 0 {
		return errLayout
	}
	c.text = c.text[i:]
	return nil
}

// name reads one of names, whatever its case, and returns its place from 1.
func (c *clock) name(names []string) (int, error) {
	for i, n := range names {
		if len(c.text) >= len(n) && strings.EqualFold(c.text[:len(n)], n) {
			c.text = c.text[len(n):]
			return i + 1, nil
		}
	}
	return 0, errLayout
}

func monthNames(long bool) []string {
	names := make([]string, 12)
	for i := range names {
		names[i] = shortened(time.Month(i+1).String(), long)
	}
	return names
}

func weekdayNames(long bool) []string {
	names := make([]string, 7)
	for i := range names {
		names[i] = shortened(time.Weekday(i).String(), long)
	}
	return names
}

func shortened(name string, long bool) string {
	if long {
		return name
	}
	return name[:3]
}

// zoneOffset reads Z, +hh:mm or +hhmm, with or without a blank before it.
// Hours alone are refused: "+08" is as often a zone's name as its offset.
func (c *clock) zoneOffset() error {
	c.text = strings.TrimPrefix(c.text, " ")
	if c.text == "" {
		return errLayout
	}
	sign := c.text[0]
	c.text = c.text[1:]
	if sign == 'Z' || sign == 'z' {
		return nil
	}
	if sign != '+' && sign != '-' {
		return errLayout
	}
	hours, err := c.digits(2, 2, 0, 23)
	if err != nil {
		return err
	}
	c.text = strings.TrimPrefix(c.text, ":")
	minutes, err := c.digits(2, 2, 0, 59)
	if err != nil {
		return err
	}
	c.offset = time.Duration(hours)*time.Hour + time.Duration(minutes)*time.Minute
	if sign == '-' {
		c.offset = -c.offset
	}
	return nil
}

func (c *clock) epoch() error {
	negative := strings.HasPrefix(c.text, "-")
	c.text = strings.TrimPrefix(c.text, "-")
	n, err := c.digits(1, 12, 0, 253402300799)
	if err != nil {
		return err
	}
	if negative {
		n = -n
	}
	t := time.Unix(int64(n), 0).UTC()
	c.unix = &t
	return nil
}

func (c *clock) instant(zone *time.Location) (time.Time, error) {
	if c.unix != nil {
		return c.unix.Add(time.Duration(c.nano)), nil
	}
	if !c.hasYear || !c.hasDay {
		return time.Time{}, errors.New("the layout must have a year, a month and a day")
	}
	if c.hasHour12 {
		if c.afternoon == 0 {
			return time.Time{}, errors.New("%I in the layout needs %p beside it")
		}
		c.hour = c.hour%12 + 12*(c.afternoon-1)
	}
	wall := time.Date(c.year, time.Month(c.month), c.day, c.hour, c.minute, c.second, c.nano, time.UTC)
	if wall.Day() != c.day {
		return time.Time{}, errors.New("the month does not have that day")
	}
	if c.weekday != 0 && int(wall.Weekday()) != c.weekday-1 {
		return time.Time{}, errors.New("the day of the week is not that of the date")
	}
	if c.hasOffset {
		return wall.Add(-c.offset), nil
	}
	return atWallClock(wall, zone), nil
}

// formatLayout writes t by an expanded layout.
func formatLayout(t time.Time, layout string) string {
	var b []byte
	for i := 0; i < len(layout); i++ {
		if layout[i] != '%' || i+1 == len(layout) {
			b = append(b, layout[i])
			continue
		}
		i++
		switch layout[i] {
		case '%':
			b = append(b, '%')
		case 's':
			b = fmt.Appendf(b, "%d", t.Unix())
		case 'f':
			b = fmt.Appendf(b, "%06d", t.Nanosecond()/1000)
		case 'e':
			b = fmt.Appendf(b, "%2d", t.Day())
		default:
			b = t.AppendFormat(b, goLayout(layout[i]))
		}
	}
	return string(b)
}

func goLayout(d byte) string {
	switch d {
	case 'Y':
		return "2006"
	case 'y':
		return "06"
	case 'm':
		return "01"
	case 'd':
		return "02"
	case 'H':
		return "15"
	case 'I':
		return "03"
	case 'M':
		return "04"
	case 'S':
		return "05"
	case 'p':
		return "PM"
	case 'b':
		return "Jan"
	case 'B':
		return "January"
	case 'a':
		return "Mon"
	case 'A':
		return "Monday"
	case 'z':
		return "-0700"
	}
	return ""
}
