package main

import "fmt"

// cents is an amount of money in the shop's minor unit. All systems here trade in US dollars.
type cents int64

func (c cents) String() string {
	sign := ""
	if c < 0 {
		sign, c = "-", -c
	}
	return fmt.Sprintf("%s%d.%02d", sign, c/100, c%100)
}
