package main

// What both sides hold, in the terms in which they are compared.

// shopState is what the shop holds: the truth.
type shopState struct {
	Customers []customer
	SKUs      []string
	Orders    []order
}

type customer struct {
	ID    string
	Name  string
	Email string
}

type order struct {
	ID         string
	Code       string
	State      string // as the shop names it
	Placed     bool
	CustomerID string
	Total      cents // with tax and shipping
	Shipping   cents
	Lines      []line
	LineIDs    []string // the shop's ids of Lines, in the same order
	PaymentIDs []string
}

// line is one line of an order. The shipping is a line without a SKU.
type line struct {
	SKU      string
	Quantity int
	Amount   cents // of the whole line, with tax
}

// erpState is what the ERP holds beyond what its template database came with.
type erpState struct {
	Parties  []party
	Products []string // codes, one for each product
	Sales    []sale
}

type party struct {
	Code   string
	Name   string
	Emails []string
	// DoubledParts counts addresses and contacts that the party has more than once.
	DoubledParts int
}

type sale struct {
	WebID     string
	State     string
	PartyCode string
	Total     cents // of the lines
	// Kept is the total that the ERP keeps, once it keeps one: from the confirmation on.
	Kept  *cents
	Taxed bool
	Lines []line
	// DoubledInvoices counts lines that were invoiced more than once.
	DoubledInvoices int
}

// deadLetter is one job that syncd lists as needing a person.
type deadLetter struct {
	Flow  string `json:"flow"`
	Key   string `json:"key"`
	Class string `json:"class"`
}
