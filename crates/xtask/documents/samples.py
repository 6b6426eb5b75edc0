"""A party that the back ends of the played adapters know."""

PARTY = {
    "idType": "MSISDN", "idValue": "222", "displayName": "Neema Ali", "firstName": "Neema",
    "middleName": "B", "lastName": "Ali", "dateOfBirth": "1980-01-01",
}
